package signet

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"
)

// assertionLife is long enough for a request and some clock skew.
const assertionLife = 60 * time.Second

// PrivateKeyAssertion authenticates a workload credential by its private key (private_key_jwt, RFC 7523). The key is P-256
// (ES256), RSA (RS256) or Ed25519 (EdDSA), and never leaves the program. The key id names it in the credential's key set.
// Pass the result as [Options.Assertion].
func PrivateKeyAssertion(
	clientID, keyID string, key crypto.Signer,
) (func(ctx context.Context, audience string) (string, error), error) {
	algorithm, sign, err := assertionSigner(key)
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, audience string) (string, error) {
		header := map[string]string{"alg": algorithm}
		if keyID != "" {
			header["kid"] = keyID
		}
		now := time.Now()
		claims := map[string]any{
			"iss": clientID, "sub": clientID, "aud": audience, "jti": randomID(),
			"iat": now.Unix(), "exp": now.Add(assertionLife).Unix(),
		}
		input := encodePart(header) + "." + encodePart(claims)
		signature, err := sign([]byte(input))
		if err != nil {
			return "", err
		}
		return input + "." + base64.RawURLEncoding.EncodeToString(signature), nil
	}, nil
}

func assertionSigner(key crypto.Signer) (string, func([]byte) ([]byte, error), error) {
	switch known := key.(type) {
	case *ecdsa.PrivateKey:
		if known.Curve == elliptic.P256() {
			return "ES256", func(input []byte) ([]byte, error) {
				digest := sha256.Sum256(input)
				r, s, err := ecdsa.Sign(rand.Reader, known, digest[:])
				if err != nil {
					return nil, err
				}
				// RFC 7518 section 3.4: two concatenated numbers, not DER.
				signature := make([]byte, 64)
				r.FillBytes(signature[:32])
				s.FillBytes(signature[32:])
				return signature, nil
			}, nil
		}
	case *rsa.PrivateKey:
		return "RS256", func(input []byte) ([]byte, error) {
			digest := sha256.Sum256(input)
			return rsa.SignPKCS1v15(rand.Reader, known, crypto.SHA256, digest[:])
		}, nil
	case ed25519.PrivateKey:
		return "EdDSA", func(input []byte) ([]byte, error) { return ed25519.Sign(known, input), nil }, nil
	}
	return "", nil, errors.New("signet: the key must be P-256, RSA or Ed25519")
}

func encodePart(value any) string {
	text, _ := json.Marshal(value)
	return base64.RawURLEncoding.EncodeToString(text)
}

// randomID returns 128 random bits. The reader of crypto/rand does not fail on supported systems.
func randomID() string {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		panic(err)
	}
	return hex.EncodeToString(id)
}
