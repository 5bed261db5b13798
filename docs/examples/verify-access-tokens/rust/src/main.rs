//! Verifies each line of the standard input: a token, and the client's certificate in base64 if there is one.
mod verify;

use std::io::{self, BufRead, Write};

use verify::Claims;

use base64::{engine::general_purpose::STANDARD, Engine};

fn main() -> Result<(), verify::Error> {
    let verifier = verify::Verifier::new(&std::env::var("ISSUER")?, &std::env::var("AUDIENCE")?);
    for line in io::stdin().lock().lines() {
        let line = line?;
        let mut words = line.split(' ');
        let token = words.next().unwrap_or_default();
        let certificate = words.next().map(|text| STANDARD.decode(text)).transpose()?;
        let answer = match verifier.verify(token, certificate.as_deref()) {
            Ok(Claims {
                sub,
                client_id,
                scope,
                ..
            }) => {
                serde_json::json!({ "sub": sub, "client_id": client_id, "scope": scope })
            }
            Err(error) => serde_json::json!({ "refused": error.to_string() }),
        };
        println!("{answer}");
        io::stdout().flush()?;
    }
    Ok(())
}
