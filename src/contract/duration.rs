//! One spelling of durations in error texts: `20ms`, `5s`, `1m0s`, `1h0m0s`, `1.5s`.

use std::time::Duration;

pub fn format(d: Duration) -> String {
    let ms = d.as_millis();
    if ms < 1000 {
        return format!("{ms}ms");
    }
    let (secs, rest) = (ms / 1000, ms % 1000);
    let fraction =
        if rest == 0 { String::new() } else { format!(".{rest:03}").trim_end_matches('0').to_owned() };
    let (h, m, s) = (secs / 3600, secs / 60 % 60, secs % 60);
    match (h, m) {
        (0, 0) => format!("{s}{fraction}s"),
        (0, _) => format!("{m}m{s}{fraction}s"),
        _ => format!("{h}h{m}m{s}{fraction}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spells_each_magnitude() {
        for (ms, text) in [
            (20, "20ms"),
            (5_000, "5s"),
            (1_500, "1.5s"),
            (60_000, "1m0s"),
            (61_250, "1m1.25s"),
            (3_600_000, "1h0m0s"),
            (7_384_000, "2h3m4s"),
        ] {
            assert_eq!(format(Duration::from_millis(ms)), text);
        }
    }
}
