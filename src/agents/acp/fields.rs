//! Reading a JSON object field by field. A wrong type in one field drops that field, never the frame, and a
//! subtree that is passed on keeps the spelling of the CLI (big numbers, deep nesting).

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;

/// The members of one object, unparsed. `null` counts as absent.
#[derive(Debug, Default)]
pub struct Fields<'a>(HashMap<String, &'a RawValue>);

impl<'a> Fields<'a> {
    /// `None` for anything that is no object.
    pub fn read(json: &'a str) -> Option<Self> {
        // A map takes only objects; the last of two members with one name counts.
        serde_json::from_str(json).ok().map(Fields)
    }

    pub fn raw(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).map(|raw| raw.get()).filter(|text| *text != "null")
    }

    /// The first of `names` that is present.
    pub fn first_raw(&self, names: &[&str]) -> Option<&'a str> {
        names.iter().find_map(|name| self.raw(name))
    }

    pub fn parse<T: Deserialize<'a>>(&self, name: &str) -> Option<T> {
        serde_json::from_str(self.raw(name)?).ok()
    }

    /// A string, as it is.
    pub fn text(&self, name: &str) -> Option<String> {
        self.parse(name)
    }

    /// The first of `names` that holds a string with more than white space, trimmed.
    pub fn word(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| self.text(name).map(|t| t.trim().to_owned()).filter(|t| !t.is_empty()))
    }

    pub fn object(&self, name: &str) -> Option<Fields<'a>> {
        Fields::read(self.raw(name)?)
    }

    /// The object at the end of a path of members.
    pub fn object_at(&self, path: &[&str]) -> Option<Fields<'a>> {
        let (first, rest) = path.split_first()?;
        let object = self.object(first)?;
        if rest.is_empty() { Some(object) } else { object.object_at(rest) }
    }

    /// The elements of an array, unparsed; empty for anything else.
    pub fn array(&self, name: &str) -> Vec<&'a str> {
        let elements: Option<Vec<&RawValue>> = self.parse(name);
        elements.unwrap_or_default().into_iter().map(RawValue::get).collect()
    }

    /// All members, in no order.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.0.iter().map(|(name, raw)| (name.as_str(), raw.get()))
    }

    /// The only member of an object that has exactly one.
    pub fn single(&self) -> Option<(&str, &'a str)> {
        let mut members = self.0.iter();
        match (members.next(), members.next()) {
            (Some((name, raw)), None) => Some((name, raw.get())),
            _ => None,
        }
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_type_costs_only_its_own_field() {
        let f =
            Fields::read(r#"{"a":1,"b":"x","c":null,"d":{"e":{"f":" y "}},"g":[1,"z"],"b":"last"}"#).unwrap();
        assert_eq!((f.text("a"), f.text("b").as_deref(), f.raw("c")), (None, Some("last"), None));
        assert_eq!(f.object_at(&["d", "e"]).unwrap().word(&["q", "f"]).as_deref(), Some("y"));
        assert_eq!((f.array("g"), f.array("b")), (vec!["1", "\"z\""], vec![]));
        assert!(f.has("c") && !f.has("h"));
        for no_object in ["[]", "1", "null", "", "{"] {
            assert!(Fields::read(no_object).is_none(), "{no_object}");
        }
        assert_eq!(Fields::read(r#"{"k":{"v":1}}"#).unwrap().single(), Some(("k", r#"{"v":1}"#)));
        assert!(f.single().is_none());
    }

    #[test]
    fn a_subtree_keeps_its_spelling() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(500), "]".repeat(500));
        assert_eq!(Fields::read(&deep).unwrap().raw("a").unwrap().len(), 1000);
        assert_eq!(Fields::read(r#"{"a":{"n": 1e400}}"#).unwrap().raw("a"), Some(r#"{"n": 1e400}"#));
    }
}
