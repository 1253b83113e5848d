//! One field of a schedule: numbers, ranges, steps and names of months and days.

/// The numbers that a field allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bits {
    allowed: u64,
    /// Written as a star: then it does not restrict days at all, where both fields for days are given.
    pub(crate) star: bool,
}

impl Bits {
    pub(crate) fn has(self, number: i8) -> bool {
        u32::try_from(number).is_ok_and(|number| self.allowed & (1 << number) != 0)
    }
}

/// The lowest and highest number of a field, and the words that stand for some of them.
pub(crate) struct Bounds {
    least: u64,
    most: u64,
    words: &'static [(&'static str, u64)],
}

pub(crate) const FIELDS: [Bounds; 5] = [
    Bounds { least: 0, most: 59, words: &[] },
    Bounds { least: 0, most: 23, words: &[] },
    Bounds { least: 1, most: 31, words: &[] },
    Bounds { least: 1, most: 12, words: &MONTHS },
    Bounds { least: 0, most: 6, words: &DAYS },
];

const MONTHS: [(&str, u64); 12] = [
    ("jan", 1),
    ("feb", 2),
    ("mar", 3),
    ("apr", 4),
    ("may", 5),
    ("jun", 6),
    ("jul", 7),
    ("aug", 8),
    ("sep", 9),
    ("oct", 10),
    ("nov", 11),
    ("dec", 12),
];

const DAYS: [(&str, u64); 7] =
    [("sun", 0), ("mon", 1), ("tue", 2), ("wed", 3), ("thu", 4), ("fri", 5), ("sat", 6)];

/// Reads a list of ranges.
pub(crate) fn parse(text: &str, bounds: &Bounds) -> Result<Bits, String> {
    let mut bits = Bits { allowed: 0, star: false };
    for range in text.split(',').filter(|range| !range.is_empty()) {
        let next = parse_range(range, bounds)?;
        bits = Bits { allowed: bits.allowed | next.allowed, star: bits.star || next.star };
    }
    Ok(bits)
}

fn parse_range(text: &str, bounds: &Bounds) -> Result<Bits, String> {
    let parts: Vec<&str> = text.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let any = matches!(ends[0], "*" | "?");
    let (start, mut end) = if any {
        (bounds.least, bounds.most)
    } else {
        let start = number_or_word(ends[0], bounds)?;
        match ends[..] {
            [_] => (start, start),
            [_, end] => (start, number_or_word(end, bounds)?),
            _ => return Err(format!("too many hyphens: {text}")),
        }
    };
    let step = match parts[..] {
        [_] => 1,
        [_, step] => {
            if ends.len() == 1 {
                end = bounds.most;
            }
            number(step)?
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    let Bounds { least, most, .. } = bounds;
    if start < *least {
        return Err(format!("beginning of range ({start}) below minimum ({least}): {text}"));
    }
    if end > *most {
        return Err(format!("end of range ({end}) above maximum ({most}): {text}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    let step = usize::try_from(step).unwrap_or(usize::MAX);
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    let allowed = (start..=end).step_by(step).fold(0, |bits, number| bits | 1 << number);
    Ok(Bits { allowed, star: any && step == 1 })
}

fn number_or_word(text: &str, bounds: &Bounds) -> Result<u64, String> {
    let lower = text.to_lowercase();
    let word = bounds.words.iter().find(|(word, _)| *word == lower);
    word.map_or_else(|| number(text), |(_, value)| Ok(*value))
}

fn number(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let why = if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        "invalid syntax"
    } else {
        match text.parse::<i64>() {
            Ok(value) => {
                let negative = format!("negative number ({value}) not allowed: {text}");
                return u64::try_from(value).map_err(|_| negative);
            }
            Err(_) => "value out of range",
        }
    };
    Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {why}"))
}
