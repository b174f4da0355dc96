//! The thinking level, and the model, as options of a session.

use super::fields::Fields;

/// The option a session offers for it.
#[derive(Debug, PartialEq, Eq)]
pub struct Advertised {
    pub id: String,
    pub choices: Vec<Choice>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    pub value: String,
    pub label: String,
}

/// The choices of one option, each value once.
fn choices(option: &Fields) -> Vec<Choice> {
    let mut choices: Vec<Choice> = Vec::new();
    for choice in option.array("options").into_iter().filter_map(Fields::read) {
        if let Some(value) = choice.word(&["value"])
            && !choices.iter().any(|known| known.value == value)
        {
            let label = choice.word(&["name"]).unwrap_or_else(|| capitalized(&value));
            choices.push(Choice { value, label });
        }
    }
    choices
}

fn capitalized(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map(|first| first.to_uppercase().chain(rest).collect()).unwrap_or_default()
}

fn options<'a>(result: &Fields<'a>) -> Vec<Fields<'a>> {
    let list = ["configOptions", "config_options"].into_iter().find(|name| result.raw(name).is_some());
    list.map(|name| result.array(name)).unwrap_or_default().into_iter().filter_map(Fields::read).collect()
}

/// The first option whose id or category names it.
pub fn advertised(result: &Fields) -> Option<Advertised> {
    let names_it = |option: &Fields| {
        ["id", "category"].iter().any(|member| {
            option
                .text(member)
                .is_some_and(|t| matches!(t.trim().to_lowercase().as_str(), "effort" | "thought_level"))
        })
    };
    let option = options(result).into_iter().find(|o| names_it(o) && o.word(&["id"]).is_some())?;
    Some(Advertised { id: option.text("id")?, choices: choices(&option) })
}

/// What the session says the option `id` is at now.
pub fn current(result: &Fields, id: &str) -> Option<String> {
    let option = options(result).into_iter().find(|o| o.text("id").as_deref() == Some(id))?;
    option.text("currentValue").or_else(|| option.text("current_value"))
}

/// The session's current model: its `models` block, or its option for the model.
pub fn current_model(result: &Fields) -> Option<String> {
    const NAMES: &[&str] = &["currentModelId", "current_model_id"];
    let in_block = result.object("models").and_then(|models| models.word(NAMES));
    in_block
        .or_else(|| result.word(NAMES))
        .or_else(|| model_option(result)?.word(&["currentValue", "current_value"]))
}

fn model_option<'a>(result: &Fields<'a>) -> Option<Fields<'a>> {
    let is_model = |o: &Fields| ["id", "category"].iter().any(|m| o.text(m).as_deref() == Some("model"));
    options(result).into_iter().find(is_model)
}

/// The models a session offers as an option.
pub fn model_choices(result: &Fields) -> Vec<Choice> {
    model_option(result).map(|option| choices(&option)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(json: &str) -> Fields<'_> {
        Fields::read(json).unwrap()
    }

    #[test]
    fn the_option_is_found_by_id_or_category() {
        for (json, want) in [
            (
                r#"{"configOptions":[{"id":"mode"},{"id":"reasoning_effort","category":" Thought_Level ","options":[{"value":"low"},
               {"value":" high "},{"value":"low"},{"value":""},7]}]}"#,
                Some(("reasoning_effort", vec!["low", "high"])),
            ),
            (r#"{"config_options":[{"id":"Effort","options":[]}]}"#, Some(("Effort", vec![]))),
            (r#"{"configOptions":[{"category":"effort","options":[{"value":"low"}]}]}"#, None),
            (r#"{"configOptions":"x"}"#, None),
            ("{}", None),
        ] {
            let got = advertised(&fields(json));
            let got = got
                .as_ref()
                .map(|a| (a.id.as_str(), a.choices.iter().map(|c| c.value.as_str()).collect::<Vec<_>>()));
            assert_eq!(got, want, "{json}");
        }
    }

    #[test]
    fn the_read_back_takes_the_exact_id() {
        let json = r#"{"configOptions":[{"id":"Thinking","currentValue":"x"},{"id":"thinking","current_value":"max"}]}"#;
        assert_eq!(current(&fields(json), "thinking").as_deref(), Some("max"));
        assert_eq!(current(&fields(json), "effort"), None);
    }

    #[test]
    fn the_current_model_has_several_places() {
        for (json, want) in [
            (r#"{"models":{"currentModelId":" m1 "},"currentModelId":"m2"}"#, Some("m1")),
            (r#"{"models":{"current_model_id":"m1"}}"#, Some("m1")),
            (r#"{"models":{"currentModelId":" "},"currentModelId":"m2"}"#, Some("m2")),
            (r#"{"models":7,"current_model_id":"m2"}"#, Some("m2")),
            (r#"{"configOptions":[{"id":"x","category":"model","currentValue":"m3"}]}"#, Some("m3")),
            ("{}", None),
        ] {
            assert_eq!(current_model(&fields(json)).as_deref(), want, "{json}");
        }
    }
}
