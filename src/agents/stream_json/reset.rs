//! When a usage limit ends.
//!
//! Old CLIs print an epoch ("Claude AI usage limit reached|1749924000"), newer ones a clock time with the zone
//! it is meant in: "resets 3pm (Europe/Berlin)" within a day, "resets Dec 5, 3:30pm (Asia/Tokyo)" beyond.

use std::sync::LazyLock;

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};
use regex::{Captures, Regex};

static EPOCH: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"limit reached\|(\d{10,13})\b").expect("constant pattern"));
static CLOCK: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?i)\bresets?(?: at)? ",
        r"(?:(?<month>[a-z]{3})[a-z]* (?<day>\d{1,2})(?:, (?<year>\d{4}))?(?:,| at)? )?",
        r"(?<hour>\d{1,2})(?::(?<minute>\d{2}))? ?(?<half>[ap]m)",
        r"(?: \((?<zone>[\w+/-]+)\))?",
    ))
    .expect("constant pattern")
});

/// Seconds or milliseconds since the epoch -> milliseconds.
pub fn epoch_ms(n: u64) -> u64 {
    // 1e11 seconds are in the year 5138, 1e11 milliseconds in 1973.
    if n < 100_000_000_000 { n * 1000 } else { n }
}

/// The end that `text` names, in ms since the epoch; `now` completes times that have no date or no year.
/// `None` without a time, and for a clock time whose zone is not given or not known here.
pub fn named_end(text: &str, now: u64) -> Option<u64> {
    if let Some(found) = EPOCH.captures(text) {
        return found[1].parse().ok().map(epoch_ms);
    }
    let found = CLOCK.captures(text)?;
    let zone = TimeZone::get(found.name("zone")?.as_str()).ok()?;
    let now = Timestamp::from_millisecond(now.try_into().ok()?).ok()?.to_zoned(zone.clone());
    let end = clock_end(&found, &now)?;
    end.timestamp().as_millisecond().try_into().ok()
}

fn clock_end(found: &Captures<'_>, now: &Zoned) -> Option<Zoned> {
    let number = |name: &str| found.name(name).map(|m| m.as_str().parse::<i8>().ok());
    let half = if found["half"].eq_ignore_ascii_case("pm") { 12 } else { 0 };
    let hour = number("hour")?.filter(|h| (1..=12).contains(h))?;
    let time = Time::new(hour % 12 + half, number("minute").unwrap_or(Some(0))?, 0, 0).ok()?;
    let at = |date: Date| date.to_datetime(time).to_zoned(now.time_zone().clone()).ok();
    let Some(month) = found.name("month") else {
        let today = at(now.date())?;
        // The minute is rounded down, so a limit that ends right now may look past.
        let past = today.timestamp() < now.timestamp() - 60.seconds();
        return if past { at(now.date().tomorrow().ok()?) } else { Some(today) };
    };
    const MONTHS: &str = "janfebmaraprmayjunjulaugsepoctnovdec";
    let at_month = MONTHS.find(&month.as_str().to_lowercase()).filter(|i| i % 3 == 0)?;
    let month = i8::try_from(at_month / 3 + 1).ok()?;
    let day = number("day")??;
    if let Some(year) = found.name("year") {
        return at(Date::new(year.as_str().parse().ok()?, month, day).ok()?);
    }
    let this_year = at(Date::new(now.year(), month, day).ok()?)?;
    let long_past = this_year.date() < now.date().yesterday().ok()?;
    if long_past { at(Date::new(now.year() + 1, month, day).ok()?) } else { Some(this_year) }
}

/// The words that tell when, for people: "resets 3pm".
pub fn phrase(text: &str) -> Option<&str> {
    CLOCK.find(text).map(|m| m.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(rfc3339: &str) -> u64 {
        rfc3339.parse::<Timestamp>().expect(rfc3339).as_millisecond() as u64
    }

    #[test]
    fn epochs_in_seconds_and_milliseconds() {
        assert_eq!(named_end("Claude AI usage limit reached|1749924000", 0), Some(1_749_924_000_000));
        assert_eq!(named_end("usage limit reached|1749924000123", 0), Some(1_749_924_000_123));
        assert_eq!(epoch_ms(1_749_924_000), 1_749_924_000_000);
        assert_eq!(epoch_ms(1_749_924_000_000), 1_749_924_000_000);
    }

    #[test]
    fn clock_times_are_read_in_their_zone() {
        for (text, now, want) in [
            (
                "You've hit your limit · resets 3pm (America/New_York)",
                "2026-12-05T17:00:00Z",
                "2026-12-05T20:00:00Z",
            ),
            ("resets 9:50pm (Europe/Paris)", "2026-07-01T19:00:00Z", "2026-07-01T19:50:00Z"),
            // Past today, so tomorrow; across midnight of the zone.
            ("resets 1am (Europe/Berlin)", "2026-12-05T22:00:00Z", "2026-12-06T00:00:00Z"),
            ("resets 12am (UTC)", "2026-12-05T10:00:00Z", "2026-12-06T00:00:00Z"),
            ("resets 12:30pm (UTC)", "2026-12-05T10:00:00Z", "2026-12-05T12:30:00Z"),
            // Printed within the minute it ends in.
            ("resets 10am (UTC)", "2026-12-05T10:00:40Z", "2026-12-05T10:00:00Z"),
            ("Your limit will reset at 3pm (Asia/Tokyo).", "2026-12-05T00:00:00Z", "2026-12-05T06:00:00Z"),
            ("resets Dec 9, 3:05pm (Asia/Kolkata)", "2026-12-05T00:00:00Z", "2026-12-09T09:35:00Z"),
            ("resets Jan 2, 8am (UTC)", "2026-12-30T00:00:00Z", "2027-01-02T08:00:00Z"),
            ("resets January 2 at 8am (UTC)", "2026-12-30T00:00:00Z", "2027-01-02T08:00:00Z"),
            ("resets Jan 2, 2028, 8am (UTC)", "2026-12-30T00:00:00Z", "2028-01-02T08:00:00Z"),
            // The clock jumps from 2 to 3 in this night.
            ("resets 2:30am (Europe/Berlin)", "2026-03-28T23:00:00Z", "2026-03-29T01:30:00Z"),
        ] {
            let got =
                named_end(text, ms(now)).map(|n| Timestamp::from_millisecond(n as i64).unwrap().to_string());
            assert_eq!(got.as_deref(), Some(want), "{text}");
        }
    }

    #[test]
    fn a_time_that_is_not_certain_is_not_told() {
        for text in [
            "resets 3pm",
            "resets 3pm (Nowhere/Town)",
            "resets 15pm (UTC)",
            "resets 3:77pm (UTC)",
            "resets Foo 5, 3pm (UTC)",
            "resets Feb 31, 3pm (UTC)",
            "resets soon",
            "rate limited",
            "",
        ] {
            assert_eq!(named_end(text, ms("2026-12-05T00:00:00Z")), None, "{text}");
        }
        assert_eq!(phrase("limit reached ∙ resets 3pm"), Some("resets 3pm"));
        assert_eq!(phrase("limit reached"), None);
    }
}
