//! Verifies Signet's access tokens with jsonwebtoken: docs/verify-access-tokens.md.

// region verify
use std::sync::Mutex;
use std::time::{Duration, Instant};

use base64::{engine::general_purpose::URL_SAFE_NO_PAD, Engine};
use jsonwebtoken::{decode, decode_header, jwk::JwkSet, Algorithm, DecodingKey, Validation};
use serde::Deserialize;
use sha2::{Digest, Sha256};

pub type Error = Box<dyn std::error::Error + Send + Sync>;

#[derive(Deserialize)]
pub struct Claims {
    pub sub: String,
    pub client_id: String,
    pub scope: String,
    pub cnf: Option<Confirmation>,
}

#[derive(Deserialize)]
pub struct Confirmation {
    #[serde(rename = "x5t#S256")]
    pub certificate: Option<String>,
}

pub struct Verifier {
    url: String,
    expected: Validation,
    keys: Mutex<Option<(JwkSet, Instant)>>,
}

impl Verifier {
    pub fn new(issuer: &str, audience: &str) -> Self {
        let mut expected = Validation::new(Algorithm::ES256);
        expected.set_issuer(&[issuer]);
        expected.set_audience(&[audience]);
        expected.set_required_spec_claims(&["iss", "aud", "exp", "sub"]);
        let url = format!("{issuer}/.well-known/jwks.json");
        Self {
            url,
            expected,
            keys: Mutex::new(None),
        }
    }

    /// Returns the claims. `certificate` is the client's, in DER.
    pub fn verify(&self, token: &str, certificate: Option<&[u8]>) -> Result<Claims, Error> {
        let header = decode_header(token)?;
        if header.typ.as_deref() != Some("at+jwt") {
            return Err("this is no access token".into());
        }
        let key = self.key(&header.kid.ok_or("the token names no key")?)?;
        let claims = decode::<Claims>(token, &key, &self.expected)?.claims;
        let bound = claims
            .cnf
            .as_ref()
            .and_then(|cnf| cnf.certificate.as_deref());
        let presented = certificate.map(|der| URL_SAFE_NO_PAD.encode(Sha256::digest(der)));
        if bound.is_some() && bound != presented.as_deref() {
            return Err("the token belongs to another certificate".into());
        }
        Ok(claims)
    }

    /// Reads the key set after five minutes, and after ten seconds for an unknown key id.
    fn key(&self, kid: &str) -> Result<DecodingKey, Error> {
        let mut kept = self.keys.lock().map_err(|_| "another thread panicked")?;
        let stale = match &*kept {
            Some((keys, read)) => {
                let limit = if keys.find(kid).is_some() { 300 } else { 10 };
                read.elapsed() > Duration::from_secs(limit)
            }
            None => true,
        };
        if stale {
            let keys = ureq::get(&self.url).call()?.body_mut().read_json()?;
            *kept = Some((keys, Instant::now()));
        }
        let (keys, _) = kept.as_ref().ok_or("there are no keys")?;
        Ok(DecodingKey::from_jwk(
            keys.find(kid).ok_or("the key is unknown")?,
        )?)
    }
}
// endregion
