//! Answers to `session/request_permission`.

use super::fields::Fields;

/// What to answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Choice {
    Select(String),
    /// Nothing on offer can be chosen: an error answer. `cancelled` would abort the whole turn on some
    /// agents, and an id nobody offered is silently ignored by others.
    Nothing,
}

/// Grants this one action; else a grant for this session only; else denies this one action. A grant that the
/// agent stores for ever, and a denial that it stores, are never chosen.
pub fn choose(params: &str) -> Choice {
    let options: Vec<(String, String)> = Fields::read(params)
        .map(|p| p.array("options"))
        .unwrap_or_default()
        .into_iter()
        .filter_map(|raw| {
            let option = Fields::read(raw)?;
            let id = option.text("optionId").filter(|id| !id.is_empty())?;
            Some((id, option.text("kind")?.trim().to_lowercase()))
        })
        .collect();
    let of_session = ["allow_session", "approve_for_session"].into_iter().find_map(|wanted| {
        options.iter().find(|(id, kind)| id == wanted && (kind == "allow_once" || kind == "allow_always"))
    });
    let of_kind = |wanted: &str| options.iter().find(|(_, kind)| kind == wanted);
    match of_session.or_else(|| of_kind("allow_once")).or_else(|| of_kind("reject_once")) {
        Some((id, _)) => Choice::Select(id.clone()),
        None => Choice::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_action_is_granted_or_denied_and_nothing_is_stored() {
        for (options, want) in [
            (
                r#"[{"optionId":"a1","kind":"allow_once"},{"optionId":"allow_session","kind":"allow_always"},
                   {"optionId":"allow_always","kind":"allow_always"}]"#,
                Some("allow_session"),
            ),
            (
                r#"[{"optionId":"approve_for_session","kind":"allow_always"},{"optionId":"a","kind":"allow_once"}]"#,
                Some("approve_for_session"),
            ),
            (
                r#"[{"optionId":"allow_session","kind":"reject_once"},{"optionId":"a","kind":"allow_once"}]"#,
                Some("a"),
            ),
            (
                r#"[{"optionId":"zz9","kind":"ALLOW_ONCE "},{"optionId":"no","kind":"reject_once"}]"#,
                Some("zz9"),
            ),
            (
                r#"[{"optionId":"forever","kind":"allow_always"},{"optionId":"no","kind":"reject_once"}]"#,
                Some("no"),
            ),
            (r#"[{"optionId":"","kind":"allow_once"},{"optionId":"no","kind":"reject_once"}]"#, Some("no")),
            (r#"[{"optionId":"x","kind":"frobnicate"},{"optionId":"n","kind":"reject_once"}]"#, Some("n")),
            (r#"[{"optionId":"forever","kind":"allow_always"}]"#, None),
            (r#"[{"optionId":"never","kind":"reject_always"}]"#, None),
            (r#"[]"#, None),
            (r#""x""#, None),
            (r#"[7,null,{"kind":"allow_once"},{"optionId":1,"kind":"allow_once"}]"#, None),
        ] {
            let want = want.map_or(Choice::Nothing, |id| Choice::Select(id.into()));
            assert_eq!(choose(&format!("{{\"options\":{options}}}")), want, "{options}");
        }
        assert_eq!(choose("{}"), Choice::Nothing);
        assert_eq!(choose("null"), Choice::Nothing);
    }
}
