//! Points in time as calendar fields, for file names and time stamps that CLIs read.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A UTC date and time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Utc {
    pub year: u64,
    pub month: u64,
    pub day: u64,
    pub hour: u64,
    pub minute: u64,
    pub second: u64,
    pub nanos: u32,
}

impl Utc {
    pub fn now() -> Utc {
        Utc::since_epoch(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
    }

    pub fn since_epoch(time: Duration) -> Utc {
        let (days, rest) = (time.as_secs() / 86_400, time.as_secs() % 86_400);
        // Days since 0000-03-01, so that the leap day is the last of its year (Howard Hinnant's civil_from_days).
        let z = days + 719_468;
        let (era, day_of_era) = (z / 146_097, z % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * day_of_year + 2) / 153;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        Utc {
            year: era * 400 + year_of_era + u64::from(month <= 2),
            month,
            day: day_of_year - (153 * from_march + 2) / 5 + 1,
            hour: rest / 3600,
            minute: rest / 60 % 60,
            second: rest % 60,
            nanos: time.subsec_nanos(),
        }
    }

    /// `20261130T172704.000000001`
    pub fn compact(&self) -> String {
        let Utc { year, month, day, hour, minute, second, nanos } = self;
        format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}.{nanos:09}")
    }

    /// `2026-11-30T17:27:04.123Z`
    pub fn iso(&self) -> String {
        let Utc { year, month, day, hour, minute, second, nanos } = self;
        let ms = nanos / 1_000_000;
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_around_leap_days() {
        for (seconds, compact, iso) in [
            (0, "19700101T000000.120000007", "1970-01-01T00:00:00.120Z"),
            (951_782_399, "20000228T235959.120000007", "2000-02-28T23:59:59.120Z"),
            (951_782_400, "20000229T000000.120000007", "2000-02-29T00:00:00.120Z"),
            (951_868_800, "20000301T000000.120000007", "2000-03-01T00:00:00.120Z"),
            (1_796_059_624, "20261130T172704.120000007", "2026-11-30T17:27:04.120Z"),
            (4_107_542_400, "21000301T000000.120000007", "2100-03-01T00:00:00.120Z"),
        ] {
            let utc = Utc::since_epoch(Duration::new(seconds, 120_000_007));
            assert_eq!((utc.compact().as_str(), utc.iso().as_str()), (compact, iso));
        }
    }
}
