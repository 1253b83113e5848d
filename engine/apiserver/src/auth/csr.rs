//! Certificate signing requests, read as the signers read them: with Go's PEM, and no more of it than the first block.

use x509_parser::asn1_rs::Tag;
use x509_parser::prelude::{AttributeTypeAndValue, FromDer, X509CertificationRequest};

use crate::pem::{self, Block};

const LABEL: &str = "CERTIFICATE REQUEST";

/// Whether the field `spec.request` holds a request at all: PEM in base64, whose first block is one.
pub(crate) fn check_block(field: &str) -> Result<(), String> {
    first(&blocks(field)).map(drop)
}

/// The same, and that the block can be read. The signature is not looked at.
pub(crate) fn check(field: &str) -> Result<(), String> {
    let blocks = blocks(field);
    parse(first(&blocks)?).map(drop)
}

/// The organizations that the field names as its subject's, which become the groups of a user. An error where that cannot
/// be told.
///
/// Signers read the first block. Readers of PEM differ in what they pass over, so every block that is a request counts.
pub(crate) fn organizations(field: &str) -> Result<Vec<String>, String> {
    let blocks = blocks(field);
    first(&blocks)?;
    let mut all = Vec::new();
    for block in blocks.iter().filter(|block| block.label == LABEL) {
        let request = parse(block)?;
        for organization in request.certification_request_info.subject.iter_organization() {
            all.push(string(organization)?);
        }
    }
    Ok(all)
}

fn blocks(field: &str) -> Vec<Block> {
    pem::field(field).map(|text| pem::blocks(&text)).unwrap_or_default()
}

fn first(blocks: &[Block]) -> Result<&Block, String> {
    let first = blocks.first().filter(|block| block.label == LABEL);
    first.ok_or_else(|| format!("PEM block type must be {LABEL}"))
}

fn parse(block: &Block) -> Result<X509CertificationRequest<'_>, String> {
    match X509CertificationRequest::from_der(&block.bytes) {
        Ok(([], request)) => Ok(request),
        Ok(_) => Err("asn1: syntax error: trailing data".to_owned()),
        Err(why) => Err(format!("asn1: structure error: {why}")),
    }
}

/// The text of an attribute, in any of the encodings that Go knows.
fn string(attribute: &AttributeTypeAndValue<'_>) -> Result<String, String> {
    let value = attribute.attr_value();
    let text = match value.tag() {
        Tag::Utf8String | Tag::PrintableString | Tag::Ia5String | Tag::NumericString => {
            String::from_utf8(value.data.to_vec()).ok()
        }
        Tag::TeletexString => Some(value.data.iter().map(|byte| char::from(*byte)).collect()),
        Tag::BmpString if value.data.len() % 2 == 0 => {
            let units = value.data.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
            String::from_utf16(&units.collect::<Vec<u16>>()).ok()
        }
        _ => None,
    };
    text.ok_or_else(|| "the subject has an organization that is no text".to_owned())
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use rcgen::string::{BmpString, TeletexString};
    use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, KeyPair};

    use super::*;

    fn request(organization: DnValue) -> String {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, organization);
        params.serialize_request(&key).unwrap().pem().unwrap()
    }

    fn masters() -> String {
        request("system:masters".into())
    }

    #[track_caller]
    fn check_organizations(pem: &str, expected: &[&str]) {
        let found = organizations(&STANDARD.encode(pem)).unwrap();
        assert_eq!(found, expected, "{pem}");
    }

    #[test]
    fn text_around_the_block_hides_nothing() {
        let pem = masters();
        check_organizations(&pem, &["system:masters"]);
        check_organizations(&format!("# a comment\n{pem}"), &["system:masters"]);
        check_organizations(&format!("{pem}# a comment\n"), &["system:masters"]);
        let headed = pem.replacen("REQUEST-----\n", "REQUEST-----\nProc-Type: none\n\n", 1);
        check_organizations(&headed, &["system:masters"]);
        check_organizations(&pem.replace('\n', "\r\n"), &["system:masters"]);
        check_organizations(&pem.replace("MI", "M I"), &["system:masters"]);
    }

    #[test]
    fn neither_do_other_blocks() {
        let (plain, masters) = (request("team".into()), masters());
        check_organizations(&format!("{plain}{masters}"), &["team", "system:masters"]);
        // The first is broken: the second is what Go finds.
        let broken = plain.replacen("MI", "M!", 1);
        check_organizations(&format!("{broken}{masters}"), &["system:masters"]);
    }

    #[test]
    fn the_field_may_be_broken_into_lines() {
        let mut field = STANDARD.encode(masters());
        field.insert_str(40, "\r\n");
        assert_eq!(organizations(&field).unwrap(), ["system:masters"]);
    }

    #[test]
    fn every_encoding_of_a_name_is_read() {
        let teletex = TeletexString::try_from("system:masters").unwrap();
        check_organizations(&request(DnValue::TeletexString(teletex)), &["system:masters"]);
        let bmp = BmpString::try_from("system:masters").unwrap();
        check_organizations(&request(DnValue::BmpString(bmp)), &["system:masters"]);
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let wrap = |label: &str, body: &str| {
            STANDARD.encode(format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n"))
        };
        for field in ["", "!", &wrap(LABEL, "AAAA"), &wrap("CERTIFICATE", "AAAA"), &STANDARD.encode("text")] {
            assert!(organizations(field).is_err() && check(field).is_err(), "{field}");
        }
        assert!(check_block(&wrap(LABEL, "AAAA")).is_ok());
        assert!(check_block(&wrap("CERTIFICATE", "AAAA")).is_err());
        // One byte more than the request has.
        let pem = masters();
        let block = &pem::blocks(pem.as_bytes())[0];
        let longer = STANDARD.encode([block.bytes.as_slice(), &[0]].concat());
        assert!(check(&wrap(LABEL, &longer)).is_err());
        assert!(check(&wrap(LABEL, &STANDARD.encode(&block.bytes))).is_ok());
    }
}
