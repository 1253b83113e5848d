//! Expectations are the real server's own answers.

use proptest::prelude::*;

use super::*;

/// What was written, what is shown, and what one more is.
const SHOWN: &[(&str, &str, &str)] = &[
    ("0", "0", "1"),
    ("1", "1", "2"),
    ("00", "0", "1"),
    ("0.0", "0", "1"),
    ("1000", "1k", "1001"),
    ("100m", "100m", "1100m"),
    ("0.1", "100m", "1100m"),
    ("1500m", "1500m", "2500m"),
    ("1.5", "1500m", "2500m"),
    ("1.5Gi", "1536Mi", "1610612737"),
    ("1024", "1024", "1025"),
    ("1024Ki", "1Mi", "1048577"),
    ("1Gi", "1Gi", "1073741825"),
    ("8Gi", "8Gi", "8589934593"),
    ("0.5Gi", "512Mi", "536870913"),
    ("0.0001Gi", "107374182400u", "107375182400u"),
    ("1e3", "1e3", "1001"),
    ("12e6", "12e6", "12000001"),
    ("1E", "1E", "1000000000000000001"),
    ("1Ei", "1Ei", "1152921504606846977"),
    ("1e+3", "1e+3", "1001"),
    ("1E3", "1E3", "1001"),
    (".5", "500m", "1500m"),
    ("5.", "5.", "6"),
    ("+", "0", "1"),
    ("-", "0", "1"),
    ("1n", "1n", "1000000001n"),
    ("0.1n", "1n", "1000000001n"),
    ("1u", "1u", "1000001u"),
    ("1000m", "1", "2"),
    ("10000m", "10", "11"),
    ("123456789012345678901234567890", "123456789012345678901234567890", "123456789012345678901234567891"),
    ("9223372036854775807", "9223372036854775807", "9223372036854775808"),
    ("9223372036854775808", "9223372036854775808", "9223372036854775809"),
    ("9Ei", "9223372036854775807", "8Ei"),
    ("8Ei", "9223372036854775807", "8Ei"),
    ("16Ei", "9223372036854775807", "8Ei"),
    ("-1", "-1", "0"),
    ("-100m", "-100m", "900m"),
    ("-0", "0", "1"),
    ("+5", "+5", "6"),
    ("-1.5Gi", "-1536Mi", "-1610612735"),
    ("1500Ki", "1500Ki", "1536001"),
    ("1000Ki", "1000Ki", "1024001"),
    ("512Mi", "512Mi", "536870913"),
    ("2048Mi", "2Gi", "2147483649"),
    ("1025", "1025", "1026"),
    ("0.001", "1m", "1001m"),
    ("0.0001", "100u", "1000100u"),
    ("0.00000000001", "1n", "1000000001n"),
    ("1.23456789012", "1234567891n", "2234567891n"),
    ("1Mi", "1Mi", "1048577"),
    ("3Mi", "3Mi", "3145729"),
    ("1.0", "1", "2"),
    ("1.10", "1100m", "2100m"),
    ("01", "01", "2"),
    ("007", "007", "8"),
    ("100000", "100k", "100001"),
    ("1000k", "1M", "1000001"),
    ("1e-3", "1e-3", "1001e-3"),
    ("1e-10", "1e-9", "1000000001e-9"),
    ("100e-3", "100e-3", "1100e-3"),
    ("1.000", "1", "2"),
    ("10.5M", "10500k", "10500001"),
    ("1000000000000000000000", "1", "1000000000000000000001"),
    ("999999999999999999", "999999999999999999", "1E"),
    ("99999999999999999", "99999999999999999", "100P"),
    ("1Ti", "1Ti", "1099511627777"),
    ("1.5Ki", "1536", "1537"),
    ("1.1Ki", "1126400m", "1127400m"),
    ("0.1Ki", "102400m", "103400m"),
    ("100Gi", "100Gi", "107374182401"),
    ("4Ki", "4Ki", "4097"),
    ("5Ki", "5Ki", "5121"),
    ("1P", "1P", "1000000000000001"),
    ("1000P", "1E", "1000000000000000001"),
    ("1000E", "1", "1000000000000000000001"),
    ("10000E", "10", "10000000000000000000001"),
    ("1.000000000000000000001", "1000000001n", "2000000001n"),
];

#[test]
fn written_as_the_real_server_writes_them() {
    let one = Quantity::parse("1").unwrap();
    for (text, shown, plus_one) in SHOWN {
        let quantity = Quantity::parse(text).unwrap();
        assert_eq!(quantity.to_string(), *shown, "{text}");
        assert_eq!(quantity.add(&one).to_string(), *plus_one, "{text} + 1");
    }
}

#[test]
fn what_is_no_quantity_is_refused_in_the_same_words() {
    let format = Error::Format;
    for (text, error) in [
        ("", format),
        ("abc", format),
        ("1x", format),
        ("1Kib", format),
        ("1.5.5", format),
        ("1e1.5", format),
        ("1e", Error::Suffix),
        ("1ki", Error::Suffix),
        ("1K", Error::Suffix),
    ] {
        assert_eq!(Quantity::parse(text).unwrap_err(), error, "{text}");
    }
}

#[test]
fn values_are_rounded_away_from_zero() {
    for (text, value, milli) in [
        ("100m", 1, 100),
        ("-100m", -1, -100),
        ("1.5Gi", 1_610_612_736, 1_610_612_736_000),
        ("1n", 1, 1),
        ("0", 0, 0),
        ("1e300", i64::MAX, i64::MAX),
    ] {
        let quantity = Quantity::parse(text).unwrap();
        assert_eq!((quantity.value(), quantity.milli_value()), (value, milli), "{text}");
    }
}

/// Everything that is done with two amounts; the most digits that any of them or of what was made has held.
fn worked(left: &Quantity, right: &Quantity) -> usize {
    let (sum, difference) = (left.add(right), left.subtract(right));
    let order = left.cmp(right);
    let mut most = 0;
    for made in [left, right, &sum, &difference, &sum.add(left), &difference.subtract(right)] {
        most = most.max(made.digits.len()).max(made.canonical().len()).max(made.to_string().len());
        assert!(made.value().unsigned_abs() <= made.milli_value().unsigned_abs().max(1), "{made:?}");
    }
    assert_eq!(order.reverse(), right.cmp(left));
    most
}

#[test]
fn immense_amounts_hold_few_digits() {
    for exponent in ["e2000000", "e2147483647", "e-2147483648", "E-2000000"] {
        let immense = Quantity::parse(&format!("1{exponent}")).unwrap();
        for other in ["1", "-1", "1n", "1Ki", "3e2147483646", "0", "-1e2147483647", "7Ei"] {
            let other = Quantity::parse(other).unwrap();
            let most = worked(&immense, &other).max(worked(&other, &immense));
            assert!(most < 1100, "{most} digits for {immense} and {other}");
        }
    }
    let immense = Quantity::parse("1e2147483647").unwrap();
    assert_eq!((immense.value(), immense.milli_value()), (i64::MAX, i64::MAX));
    assert_eq!(immense.to_string(), "10e2147483646");
    assert!(immense > Quantity::parse("9e2147483646").unwrap());
    assert_eq!(Quantity::parse("1Ki").unwrap().add(&immense).size(), immense.size());
}

#[test]
fn long_texts_take_work_by_their_length() {
    let zeros = "0".repeat(1 << 20);
    for text in
        [format!("1{zeros}"), format!("0.{zeros}1"), format!("1{zeros}.{zeros}1"), format!("1{zeros}e5")]
    {
        let long = Quantity::parse(&text).unwrap();
        assert!(worked(&long, &Quantity::parse("1Ki").unwrap()) <= text.len() + 1024);
    }
}

/// Texts that look like amounts, and texts that do not.
fn hostile_text() -> impl Strategy<Value = String> {
    let likely = "[+-]?[0-9.]{0,40}[eEinumkKMGTP]{0,2}[+-]?[0-9]{0,10}";
    let number = "[+-]?[0-9]{1,30}(\\.[0-9]{0,30})?[eE]-?[0-9]{1,10}";
    prop_oneof![
        2 => likely,
        3 => number,
        1 => prop::collection::vec(any::<u8>(), 0..40)
            .prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
    ]
}

fn any_text() -> impl Strategy<Value = String> {
    let suffix = prop::sample::select(vec![
        "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "e-4",
        "E9",
    ]);
    ("[+-]?[0-9]{1,20}(\\.[0-9]{0,12})?", suffix).prop_map(|(number, suffix)| format!("{number}{suffix}"))
}

proptest! {
    #[test]
    fn no_text_makes_more_digits_than_it_has(left in hostile_text(), right in hostile_text()) {
        if let (Ok(one), Ok(other)) = (Quantity::parse(&left), Quantity::parse(&right)) {
            prop_assert!(worked(&one, &other) <= PRECISION + left.len() + right.len() + 24, "{} {}", left, right);
        }
    }

    #[test]
    fn what_is_shown_reads_back_as_the_same(text in any_text()) {
        let quantity = Quantity::parse(&text).unwrap();
        let shown = quantity.to_string();
        // Beyond the largest suffix the real server drops the size, too.
        prop_assume!(quantity.digits.cmp_scaled(quantity.scale, &Digits::from(1), 21) == Ordering::Less);
        let again = Quantity::parse(&shown).unwrap();
        prop_assert_eq!(&again, &quantity);
        prop_assert_eq!(again.to_string(), shown);
    }

    #[test]
    fn order_agrees_with_differences(left in any_text(), right in any_text()) {
        let (left, right) = (Quantity::parse(&left).unwrap(), Quantity::parse(&right).unwrap());
        let difference = left.subtract(&right);
        let expected = match (difference.is_zero(), difference.is_negative()) {
            (true, _) => Ordering::Equal,
            (_, true) => Ordering::Less,
            _ => Ordering::Greater,
        };
        prop_assert_eq!(left.cmp(&right), expected);
        prop_assert_eq!(right.cmp(&left), expected.reverse());
        prop_assert_eq!(left.add(&right), right.add(&left));
    }
}
