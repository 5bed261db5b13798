// Program access-tokens verifies Signet's access tokens with golang-jwt: docs/verify-access-tokens.md.
package main

// region verify
import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"time"

	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
)

// Claims of an access token.
type Claims struct {
	jwt.RegisteredClaims
	ClientID     string `json:"client_id"`
	Scope        string `json:"scope"`
	Confirmation struct {
		Certificate string `json:"x5t#S256"`
	} `json:"cnf"`
}

// Verifier verifies access tokens.
type Verifier struct {
	keys   keyfunc.Keyfunc
	parser *jwt.Parser
}

// NewVerifier reads the key set, and again every five minutes and for an unknown key id.
func NewVerifier(ctx context.Context, issuer, audience string) (*Verifier, error) {
	keys, err := keyfunc.NewDefaultOverrideCtx(ctx, []string{issuer + "/.well-known/jwks.json"}, keyfunc.Override{
		RefreshInterval: 5 * time.Minute,
	})
	return &Verifier{keys, jwt.NewParser(
		jwt.WithValidMethods([]string{"ES256"}),
		jwt.WithIssuer(issuer),
		jwt.WithAudience(audience),
		jwt.WithExpirationRequired(),
		jwt.WithIssuedAt(),
	)}, err
}

// Verify returns the claims. The certificate is the client's, or nil.
func (v *Verifier) Verify(token string, certificate *x509.Certificate) (*Claims, error) {
	var claims Claims
	parsed, err := v.parser.ParseWithClaims(token, &claims, v.keys.Keyfunc)
	if err != nil {
		return nil, err
	}
	if parsed.Header["typ"] != "at+jwt" || claims.Subject == "" || claims.ClientID == "" || claims.ID == "" {
		return nil, errors.New("this is no access token")
	}
	if bound := claims.Confirmation.Certificate; bound != "" && bound != thumbprint(certificate) {
		return nil, errors.New("the token belongs to another certificate")
	}
	return &claims, nil
}

func thumbprint(certificate *x509.Certificate) string {
	if certificate == nil {
		return ""
	}
	digest := sha256.Sum256(certificate.Raw)
	return base64.RawURLEncoding.EncodeToString(digest[:])
}

// endregion
