//! What `agy models` lists.

use crate::contract::AgentplugError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    pub id: String,
    pub label: String,
}

/// One per line: `id<TAB>label<TAB>…`, or one name that is both. A name may hold blanks and parentheses.
pub fn parse(stdout: &str) -> Vec<Model> {
    let mut models: Vec<Model> = Vec::new();
    for line in stdout.lines().filter(|l| !l.trim().is_empty()) {
        let mut fields = line.split('\t');
        let id = fields.next().unwrap_or_default().trim();
        let label = fields.next().map(str::trim).filter(|l| !l.is_empty()).unwrap_or(id);
        if !id.is_empty() && models.iter().all(|m| m.id != id) {
            models.push(Model { id: id.to_owned(), label: label.to_owned() });
        }
    }
    models
}

/// An unknown model is ignored by the CLI without a word: the run ends well and says nothing. An empty list
/// proves nothing.
pub fn check(model: &str, listed: &[Model]) -> Result<(), AgentplugError> {
    if model.is_empty() || listed.is_empty() || listed.iter().any(|m| m.id == model) {
        return Ok(());
    }
    let ids: Vec<&str> = listed.iter().map(|m| m.id.as_str()).collect();
    Err(AgentplugError::option(
        "model",
        format!(
            "antigravity model \"{model}\" is not available from `agy models`; pick one of: {}",
            ids.join(", ")
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::ErrorCode;

    #[test]
    fn lists_with_and_without_labels() {
        let model = |id: &str, label: &str| Model { id: id.into(), label: label.into() };
        let list = "id\tLabel\tx\n\nid\tdup\n  Plain One  \r\nlast\t\n";
        assert_eq!(
            parse(list),
            [model("id", "Label"), model("Plain One", "Plain One"), model("last", "last")]
        );
        assert_eq!(parse(" \n"), []);
    }

    #[test]
    fn only_an_exact_name_of_the_list_passes() {
        let listed = parse("Foo\nBar (High)");
        assert_eq!(check("Bar (High)", &listed), Ok(()));
        for model in ["Foo ", "foo", "Bar"] {
            let e = check(model, &listed).unwrap_err();
            assert_eq!((e.code, e.option.as_deref()), (ErrorCode::InvalidOption, Some("model")));
            assert!(e.message.ends_with("pick one of: Foo, Bar (High)"), "{}", e.message);
        }
        assert_eq!(check("Foo", &[]), Ok(()));
        assert_eq!(check("", &listed), Ok(()));
    }
}
