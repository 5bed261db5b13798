// Package webhooks verifies Signet's webhooks with nothing but Go's standard library.
package webhooks

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Refused says why a payload must not be used. Answer 400 for HEADERS_MALFORMED, else 401.
type Refused struct{ Code string }

func (refused *Refused) Error() string { return refused.Code }

// ErrSecret is a mistake in the configuration: a mangled secret would make signatures that anybody can forge.
var ErrSecret = errors.New("a secret is whsec_ followed by the base64 of 24 to 64 bytes")

// Verified is what is authenticated about a payload. Drop repetitions by ID; it is nil when the sender signed none.
type Verified struct {
	ID     *string
	Scheme string
}

// Limits are in seconds: 300 and 60 unless you know better.
type Limits struct{ Tolerance, Future int64 }

var (
	sha256Format       = regexp.MustCompile(`^sha256=[0-9a-f]{64}$`)
	v1Format           = regexp.MustCompile(`^v1,[A-Za-z0-9+/]{43}=$`)
	v1aFormat          = regexp.MustCompile(`^v1a,[A-Za-z0-9+/]{86}==$`)
	otherVersionFormat = regexp.MustCompile(`^v[0-9a-z]+,[\x21-\x7e]+$`)
	timestampFormat    = regexp.MustCompile(`^(?:0|[1-9][0-9]{0,11})$`)
	idFormat           = regexp.MustCompile(`^[\x21-\x2d\x2f-\x7e]{1,256}$`)
	signaturesFormat   = regexp.MustCompile(`^[\x20-\x7e]+$`)
	secretFormat       = regexp.MustCompile(`^whsec_[A-Za-z0-9+/]{32,88}={0,2}$`)
	malformed          = &Refused{"HEADERS_MALFORMED"}
)

func keyOf(secret string) ([]byte, error) {
	if !secretFormat.MatchString(secret) {
		return nil, ErrSecret
	}
	key, err := base64.StdEncoding.Strict().DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || len(key) < 24 || len(key) > 64 {
		return nil, ErrSecret
	}
	return key, nil
}

// header reads the one value of a header in its one spelling; "" when it was not sent.
func header(headers http.Header, name string, format *regexp.Regexp) (string, error) {
	values := headers.Values(name)
	if len(values) == 0 {
		return "", nil
	}
	if len(values) > 1 || !format.MatchString(values[0]) {
		return "", malformed
	}
	return values[0], nil
}

type signed struct {
	sha256                       []string
	v1, v1a                      []string
	standard                     bool
	standardID, standardTime, id string
	at                           int64
}

func readStandard(headers http.Header, found *signed) error {
	list, err := header(headers, "webhook-signature", signaturesFormat)
	if err != nil || list == "" {
		return err
	}
	entries := strings.Split(list, " ")
	if len(entries) > 16 || len(list) > 4096 {
		return malformed
	}
	for _, entry := range entries {
		switch {
		case v1Format.MatchString(entry):
			found.v1 = append(found.v1, entry)
		case v1aFormat.MatchString(entry):
			found.v1a = append(found.v1a, entry)
		case strings.HasPrefix(entry, "v1,") || !otherVersionFormat.MatchString(entry):
			return malformed
		}
	}
	found.standard = true
	if found.standardID, err = header(headers, "webhook-id", idFormat); err != nil || found.standardID == "" {
		return malformed
	}
	found.standardTime, err = header(headers, "webhook-timestamp", timestampFormat)
	if err != nil || found.standardTime == "" {
		return malformed
	}
	return nil
}

func readHeaders(headers http.Header) (*signed, error) {
	found := &signed{}
	signature, err1 := header(headers, "X-Service-Signature-256", sha256Format)
	alternative, err2 := header(headers, "X-Service-Signature-256-Alt", sha256Format)
	timestamp, err3 := header(headers, "X-Service-Timestamp", timestampFormat)
	id, err4 := header(headers, "X-Service-Event-Id", idFormat)
	if err := errors.Join(err1, err2, err3, err4, readStandard(headers, found)); err != nil {
		return nil, malformed
	}
	if signature == "" && (alternative != "" || !found.standard) || signature != "" && timestamp == "" {
		return nil, malformed
	}
	for _, value := range []string{signature, alternative} {
		if value != "" {
			found.sha256 = append(found.sha256, value)
		}
	}
	if timestamp == "" {
		timestamp = found.standardTime
	}
	found.id = id
	found.at, _ = strconv.ParseInt(timestamp, 10, 64)
	return found, nil
}

func anyEqual(values []string, expected string) bool {
	for _, value := range values {
		if subtle.ConstantTimeCompare([]byte(value), []byte(expected)) == 1 {
			return true
		}
	}
	return false
}

// weakPoints are of order 1, 2, 4 and 8, without the sign of x. As keys, they have signatures that hold for any text.
var weakPoints = []string{
	"0000000000000000000000000000000000000000000000000000000000000000",
	"0100000000000000000000000000000000000000000000000000000000000000",
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
}

func isWeakPoint(key []byte) bool {
	unsigned := append([]byte{}, key...)
	unsigned[len(unsigned)-1] &= 0x7f
	found := false
	for _, weak := range weakPoints {
		found = found || weak == hex.EncodeToString(unsigned)
	}
	return found
}

// matchesPublicKey verifies v1a signatures: Ed25519 with the endpoint's public key, whpk_….
func matchesPublicKey(found *signed, text string, body []byte) (bool, error) {
	key, err := base64.StdEncoding.Strict().DecodeString(strings.TrimPrefix(text, "whpk_"))
	if err != nil || len(key) != ed25519.PublicKeySize || isWeakPoint(key) {
		return false, errors.New("a public key is whpk_ followed by the base64 of 32 bytes, and no point of small order")
	}
	message := append([]byte(found.standardID+"."+found.standardTime+"."), body...)
	for _, entry := range found.v1a {
		value, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(entry, "v1a,"))
		if err == nil && ed25519.Verify(key, message, value) {
			return true, nil
		}
	}
	return false, nil
}

// scheme says which signature matches one of the secrets: v1 covers more and goes first.
func scheme(found *signed, secrets []string, body []byte) (string, error) {
	match := ""
	for _, secret := range secrets {
		if strings.HasPrefix(secret, "whpk_") {
			if matches, err := matchesPublicKey(found, secret, body); err != nil {
				return "", err
			} else if matches {
				return "v1a", nil
			}
			continue
		}
		key, err := keyOf(secret)
		if err != nil {
			return "", err
		}
		if found.standard {
			mac := hmac.New(sha256.New, key)
			mac.Write([]byte(found.standardID + "." + found.standardTime + "."))
			mac.Write(body)
			if anyEqual(found.v1, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil))) {
				return "v1", nil
			}
		}
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(body)
		if anyEqual(found.sha256, "sha256="+hex.EncodeToString(mac.Sum(nil))) {
			match = "sha256"
		}
	}
	if match == "" {
		return "", &Refused{"SIGNATURE_INVALID"}
	}
	return match, nil
}

// membersOf returns the members of a JSON object; none for anything else.
func membersOf(body []byte) map[string]json.RawMessage {
	var members map[string]json.RawMessage
	// A parser may ignore a byte order mark (RFC 8259 section 8.1).
	body = bytes.TrimPrefix(body, []byte("\ufeff"))
	if !utf8.Valid(body) || json.Unmarshal(body, &members) != nil {
		return nil
	}
	return members
}

// checkSentAt: sha256 covers the body alone, so the time must stand in there too, or an old delivery passes for a new one.
func checkSentAt(found *signed, scheme string, members map[string]json.RawMessage) error {
	mismatch := &Refused{"TIMESTAMP_MISMATCH"}
	if found.standard && found.standardTime != strconv.FormatInt(found.at, 10) {
		return mismatch
	}
	text, sent := members["sent_at"]
	if !sent {
		if scheme == "sha256" {
			return mismatch
		}
		return nil
	}
	var sentAt *float64
	if json.Unmarshal(text, &sentAt) != nil || sentAt == nil || *sentAt != float64(found.at) {
		return mismatch
	}
	return nil
}

func verifiedID(found *signed, scheme string, members map[string]json.RawMessage) (*string, error) {
	var id *string
	if scheme != "sha256" {
		id = &found.standardID
	} else if text := bytes.TrimSpace(members["id"]); len(text) > 0 && text[0] == '"' {
		if json.Unmarshal(text, &id) != nil {
			id = nil
		}
	}
	if id != nil && (found.standard && found.standardID != *id || found.id != "" && found.id != *id) {
		return nil, &Refused{"ID_MISMATCH"}
	}
	return id, nil
}

// Verify checks one request. The body is the raw bytes, before any parsing; secrets are the endpoint's secret, during a
// rotation the old and the new one; now is in Unix seconds. It returns *Refused, or ErrSecret for secrets that are none.
func Verify(body []byte, headers http.Header, secrets []string, now int64, limits Limits) (*Verified, error) {
	if len(secrets) == 0 {
		return nil, ErrSecret
	}
	found, err := readHeaders(headers)
	if err != nil {
		return nil, err
	}
	scheme, err := scheme(found, secrets, body)
	if err != nil {
		return nil, err
	}
	if age := now - found.at; age > limits.Tolerance {
		return nil, &Refused{"PAYLOAD_EXPIRED"}
	} else if -age > limits.Future {
		return nil, &Refused{"TIMESTAMP_MISMATCH"}
	}
	members := membersOf(body)
	if err := checkSentAt(found, scheme, members); err != nil {
		return nil, err
	}
	id, err := verifiedID(found, scheme, members)
	if err != nil {
		return nil, err
	}
	return &Verified{ID: id, Scheme: scheme}, nil
}
