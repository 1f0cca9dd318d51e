//! What stands in a certificate (RFC 5280), as far as we look at it.

use x509_parser::asn1_rs::{Any, Oid, Tag, ToDer};
use x509_parser::extensions::GeneralName;
use x509_parser::num_bigint::BigUint;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::time::ASN1Time;
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

/// What OpenSSL calls otherwise than the library here: by names that mod_ssl and nginx give, applications know clients.
const ABBREVIATIONS: [(&str, &str); 11] = [
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
    ("1.3.6.1.4.1.311.60.2.1.1", "jurisdictionL"),
    ("1.3.6.1.4.1.311.60.2.1.2", "jurisdictionST"),
    ("1.3.6.1.4.1.311.60.2.1.3", "jurisdictionC"),
    ("2.5.4.4", "SN"),
    ("2.5.4.9", "street"),
    ("2.5.4.20", "telephoneNumber"),
    ("2.5.4.42", "GN"),
    ("2.5.4.65", "pseudonym"),
    ("2.5.4.97", "organizationIdentifier"),
];

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    /// Names that it is for, in lower case; of a certificate without any, its subject's common name.
    pub(crate) names: Vec<String>,
    /// Seconds since 1970.
    pub(crate) not_before: i64,
    pub(crate) not_after: i64,
    /// As `openssl x509` prints them.
    pub(crate) valid_from: String,
    pub(crate) valid_to: String,
    /// In the order of RFC 4514.
    pub(crate) subject: String,
    pub(crate) issuer: String,
    /// Of the subject.
    pub(crate) common_name: String,
    pub(crate) email: String,
    /// In hexadecimal digits.
    pub(crate) serial: String,
    /// `SubjectPublicKeyInfo`, in DER.
    pub(crate) public_key: Vec<u8>,
}

impl Content {
    /// Reads a certificate in DER.
    pub(crate) fn of(der: &[u8]) -> Result<Self, String> {
        let (_, certificate) = X509Certificate::from_der(der).map_err(|error| error.to_string())?;
        let validity = certificate.validity();
        let subject = certificate.subject();
        let common_name = first(subject.iter_common_name());
        Ok(Self {
            names: names(&certificate, &common_name),
            not_before: validity.not_before.timestamp(),
            not_after: validity.not_after.timestamp(),
            valid_from: shown(validity.not_before),
            valid_to: shown(validity.not_after),
            subject: name(subject),
            issuer: name(certificate.issuer()),
            email: first(subject.iter_email()),
            common_name,
            serial: hex(&certificate.tbs_certificate.serial),
            public_key: certificate.public_key().raw.to_vec(),
        })
    }
}

fn names(certificate: &X509Certificate<'_>, common_name: &str) -> Vec<String> {
    let alternative = certificate.subject_alternative_name().ok().flatten();
    let named = alternative.iter().flat_map(|extension| &extension.value.general_names);
    let mut names: Vec<String> = named
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
            _ => None,
        })
        .collect();
    if names.is_empty() && !common_name.is_empty() {
        names.push(common_name.to_ascii_lowercase());
    }
    names
}

/// The first of them by itself, in which control characters, and by that backslashes, are escaped, as mod_ssl does: of a name with a NUL in it
/// a library in C would see another one, that ends there.
fn first<'a>(mut values: impl Iterator<Item = &'a AttributeTypeAndValue<'a>>) -> String {
    let text = values.next().and_then(|value| text(value.attr_value())).unwrap_or_default();
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '\\' => out.push_str("\\\\"),
            _ if char.is_control() => escape_control(char, &mut out),
            _ => out.push(char),
        }
    }
    out
}

/// With the most particular part first, as mod_ssl gives names.
fn name(name: &X509Name<'_>) -> String {
    let parts = name.iter_rdn().map(|part| {
        let one = |value: &AttributeTypeAndValue<'_>| {
            let (key, value) = (abbreviation(value.attr_type()), value.attr_value());
            format!("{key}={}", text(value).map_or_else(|| dump(value), |text| escape(&text)))
        };
        part.iter().map(one).collect::<Vec<_>>().join("+")
    });
    let mut parts: Vec<String> = parts.collect();
    parts.reverse();
    parts.join(",")
}

fn abbreviation(kind: &Oid<'_>) -> String {
    let number = kind.to_id_string();
    if let Some((_, word)) = ABBREVIATIONS.iter().find(|(known, _)| *known == number) {
        return (*word).to_owned();
    }
    x509_parser::objects::oid2abbrev(kind, x509_parser::objects::oid_registry()).map_or(number, str::to_owned)
}

/// In whichever of the types it is written that a name may have: older authorities have others than UTF-8 for what is not
/// ASCII. Latin-1 is what everybody, OpenSSL too, means by T.61.
fn text(value: &Any<'_>) -> Option<String> {
    let data = value.data;
    let wide = |bytes: &[u8]| bytes.iter().fold(0, |number, &byte| number << 8 | u32::from(byte));
    match value.tag() {
        Tag::BmpString if data.len().is_multiple_of(2) => {
            String::from_utf16(&data.chunks(2).map(|two| wide(two) as u16).collect::<Vec<_>>()).ok()
        }
        Tag::BmpString | Tag::UniversalString if !data.len().is_multiple_of(4) => None,
        Tag::UniversalString => data.chunks(4).map(|four| char::from_u32(wide(four))).collect(),
        Tag::TeletexString => Some(data.iter().map(|&byte| char::from(byte)).collect()),
        _ => std::str::from_utf8(data).ok().map(str::to_owned),
    }
}

/// What is no text, as RFC 4514 2.4 has it: left out, it would make one name of different ones.
fn dump(value: &Any<'_>) -> String {
    let encoded = value.to_der_vec_raw().unwrap_or_default();
    format!("#{}", encoded.iter().map(|byte| format!("{byte:02X}")).collect::<String>())
}

/// RFC 4514 2.4. Control characters, which a log should not see, are given by their bytes, so that no two names are alike.
fn escape(value: &str) -> String {
    let mut out = String::new();
    let last = value.chars().count().saturating_sub(1);
    for (at, char) in value.chars().enumerate() {
        match char {
            _ if char.is_control() => escape_control(char, &mut out),
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' => out.extend(['\\', char]),
            ' ' if at == 0 || at == last => out.extend(['\\', char]),
            '#' if at == 0 => out.extend(['\\', char]),
            _ => out.push(char),
        }
    }
    out
}

fn escape_control(char: char, out: &mut String) {
    char.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| out.push_str(&format!("\\{byte:02X}")));
}

fn hex(serial: &BigUint) -> String {
    let digits = serial.to_str_radix(16).to_ascii_uppercase();
    if digits.len() % 2 == 1 { format!("0{digits}") } else { digits }
}

fn shown(time: ASN1Time) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let time = time.to_datetime();
    let month = MONTHS[usize::from(u8::from(time.month()) - 1)];
    let (day, hour, minute, second) = (time.day(), time.hour(), time.minute(), time.second());
    format!("{month} {day:2} {hour:02}:{minute:02}:{second:02} {} GMT", time.year())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_in_whatever_type_it_is_written() {
        let cases: [(Tag, &[u8], Result<&str, &str>); 9] = [
            (Tag::Utf8String, "Jürgen".as_bytes(), Ok("Jürgen")),
            (Tag::PrintableString, b"Jane", Ok("Jane")),
            (Tag::BmpString, b"\0J\0\xfc\x20\xac", Ok("Jü€")),
            (Tag::TeletexString, b"J\xfcrgen", Ok("Jürgen")),
            (Tag::UniversalString, b"\0\0\0J\0\x01\xf4\x2a", Ok("J\u{1f42a}")),
            (Tag::Utf8String, b"J\xfc", Err("#0C024AFC")),
            (Tag::BmpString, b"\0J\0", Err("#1E03004A00")),
            (Tag::BmpString, b"\xd8\0", Err("#1E02D800")),
            (Tag::UniversalString, b"\0\x11\0\0", Err("#1C0400110000")),
        ];
        for (tag, data, expected) in cases {
            let value = Any::from_tag_and_data(tag, data);
            assert_eq!(
                text(&value).ok_or_else(|| dump(&value)),
                expected.map(str::to_owned).map_err(str::to_owned)
            );
        }
    }

    #[test]
    fn names_are_escaped_so_that_no_two_are_alike() {
        for (value, expected) in [
            ("a b", "a b"),
            (" a ", "\\ a\\ "),
            (" ", "\\ "),
            ("#a#", "\\#a#"),
            ("a\n\u{85}\0", "a\\0A\\C2\\85\\00"),
            ("a,+\"\\<>;=b", "a\\,\\+\\\"\\\\\\<\\>\\;=b"),
            ("", ""),
        ] {
            assert_eq!(escape(value), expected);
        }
    }

    #[test]
    fn a_common_name_ends_where_it_ends_and_not_at_a_nul() {
        for (value, expected) in [
            ("admin", "admin"),
            ("admin\0.example", "admin\\00.example"),
            ("a\r\nb\u{85}", "a\\0D\\0Ab\\C2\\85"),
            ("AD\\00", "AD\\\\00"),
            ("Jürgen, + #1", "Jürgen, + #1"),
        ] {
            let mut wish = rcgen::CertificateParams::new(Vec::new()).unwrap();
            wish.distinguished_name = rcgen::DistinguishedName::new();
            wish.distinguished_name.push(rcgen::DnType::CommonName, value);
            let made = wish.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
            assert_eq!(Content::of(made.der()).unwrap().common_name, expected);
        }
    }

    #[test]
    fn who_is_named_in_utf_16_is_not_nobody() {
        let mut wish = rcgen::CertificateParams::new(Vec::new()).unwrap();
        let name = rcgen::string::BmpString::try_from("Jürgen, €").unwrap();
        wish.distinguished_name = rcgen::DistinguishedName::new();
        wish.distinguished_name.push(rcgen::DnType::CommonName, rcgen::DnValue::BmpString(name));
        let made = wish.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
        let content = Content::of(made.der()).unwrap();
        assert_eq!((&*content.subject, &*content.common_name), ("CN=Jürgen\\, €", "Jürgen, €"));
    }
}
