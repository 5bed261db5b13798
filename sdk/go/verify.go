package signet

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
	"fmt"
	"math"
	"math/big"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// VerificationCode says why a signed payload was rejected. The codes are stable.
type VerificationCode string

const (
	// HeadersMalformed means that a header is missing, repeated or not in its exact form. Answer 400.
	HeadersMalformed VerificationCode = "HEADERS_MALFORMED"
	// SignatureInvalid means that no signature matches any of the secrets. Answer 401.
	SignatureInvalid VerificationCode = "SIGNATURE_INVALID"
	// PayloadExpired means that the timestamp is older than the tolerance. Answer 401.
	PayloadExpired VerificationCode = "PAYLOAD_EXPIRED"
	// TimestampMismatch means that the timestamp lies in the future, or differs from the one in the signed body. Answer 401.
	TimestampMismatch VerificationCode = "TIMESTAMP_MISMATCH"
	// IDMismatch means that an id header differs from the id in the signed body. Answer 401.
	IDMismatch VerificationCode = "ID_MISMATCH"
	// PayloadMalformed means that the signed body is not JSON. Only a [Receiver] rejects that, [Verify] does not. Answer 400.
	PayloadMalformed VerificationCode = "PAYLOAD_MALFORMED"
)

// VerificationError says that a payload must not be used.
type VerificationError struct{ Code VerificationCode }

// Error returns the code.
func (e *VerificationError) Error() string {
	return "signet: the webhook is rejected: " + string(e.Code)
}

// ErrSecret is a mistake in the configuration: anyone could forge the signatures of an empty or mangled secret.
var ErrSecret = errors.New(
	"signet: a secret is whsec_ and the base64 of 24 to 64 bytes, a public key is whpk_ and the base64 of 32 bytes",
)

// secretError names a wrong secret, without its text.
type secretError struct{ what string }

func (e *secretError) Error() string { return "signet: " + e.what }

// Unwrap makes it an [ErrSecret].
func (e *secretError) Unwrap() error { return ErrSecret }

// Scheme names the signature that matched.
type Scheme string

const (
	// SchemeSHA256 is X-Service-Signature-256. It covers the body.
	SchemeSHA256 Scheme = "sha256"
	// SchemeV1 is HMAC of Standard Webhooks. It covers id, time and body.
	SchemeV1 Scheme = "v1"
	// SchemeV1a is Ed25519 of Standard Webhooks. It covers id, time and body.
	SchemeV1a Scheme = "v1a"
)

// VerifyOptions changes the limits of [Verify]. The zero value has the defaults.
type VerifyOptions struct {
	// Now is the receiver's clock; time.Now() by default.
	Now time.Time
	// Tolerance is the maximum age; 300 seconds by default.
	Tolerance time.Duration
	// Future is how far the sender's clock may be ahead; 60 seconds by default.
	Future time.Duration
	// HeaderBrand stands for "Service" in the names of headers.
	HeaderBrand string
}

// Payload is a verified payload.
type Payload struct {
	// ID is the authenticated event id. Drop repeated events by it. It is empty if the sender signed none.
	ID string
	// Timestamp is when the payload was signed.
	Timestamp time.Time
	// Scheme is the signature that matched.
	Scheme Scheme
	// Body has the received bytes.
	Body []byte

	members map[string]json.RawMessage
	signsID bool
}

var (
	sha256Format       = regexp.MustCompile(`^sha256=[0-9a-f]{64}$`)
	v1Format           = regexp.MustCompile(`^v1,[A-Za-z0-9+/]{43}=$`)
	v1aFormat          = regexp.MustCompile(`^v1a,[A-Za-z0-9+/]{86}==$`)
	otherVersionFormat = regexp.MustCompile(`^v[0-9a-z]+,[\x21-\x7e]+$`)
	// One spelling per number: no sign, no leading zero.
	timestampFormat = regexp.MustCompile(`^(?:0|[1-9][0-9]{0,11})$`)
	// Without the dot, which separates the signed parts.
	idFormat         = regexp.MustCompile(`^[\x21-\x2d\x2f-\x7e]{1,256}$`)
	signaturesFormat = regexp.MustCompile(`^[\x20-\x7e]+$`)
	secretFormat     = regexp.MustCompile(`^whsec_[A-Za-z0-9+/]{32,88}={0,2}$`)
	publicKeyFormat  = regexp.MustCompile(`^whpk_[A-Za-z0-9+/]{43}=$`)
)

const (
	maxSignatures      = 16
	maxSignaturesBytes = 4096
	publicKeyPrefix    = "whpk_"
	secretPrefix       = "whsec_"
	defaultTolerance   = 300 * time.Second
	defaultFuture      = 60 * time.Second
)

// Verify checks a signed payload. It is then genuine and fresh. Drop repeated events by [Payload.ID].
//
// The body is the raw bytes, before any parsing. The secrets are those of the endpoint, or its public keys (whpk_…). During
// a rotation they are the old and the new one.
//
// It checks in this order: each header once and in its exact form; a signature, in constant time; the age; the time and the
// id in the signed body. It returns a [*VerificationError], or an [ErrSecret] for no or malformed secrets. White space around
// secrets is ignored.
func Verify(body []byte, headers http.Header, secrets []string, options VerifyOptions) (*Payload, error) {
	secrets, err := readSecrets(secrets)
	if err != nil {
		return nil, err
	}
	found, err := readHeaders(headers, first(options.HeaderBrand, "Service"))
	if err != nil {
		return nil, err
	}
	scheme, err := matchingScheme(found, secrets, body)
	if err != nil {
		return nil, err
	}
	if err := checkAge(found.at, options); err != nil {
		return nil, err
	}
	members := membersOf(withoutMark(body))
	if err := checkSentAt(found, scheme, members); err != nil {
		return nil, err
	}
	payload := &Payload{Timestamp: time.Unix(found.at, 0), Scheme: scheme, Body: body, members: members}
	if err := checkID(payload, found); err != nil {
		return nil, err
	}
	return payload, nil
}

// verifyParsed verifies a payload that must be JSON: no handler gets one that was not parsed.
func verifyParsed(body []byte, headers http.Header, secrets []string, options VerifyOptions) (*Payload, error) {
	payload, err := Verify(body, headers, secrets, options)
	if err == nil && !(utf8.Valid(body) && json.Valid(withoutMark(body))) {
		return nil, rejected(PayloadMalformed)
	}
	return payload, err
}

// withoutMark returns the body without a byte order mark, which a parser may ignore (RFC 8259 section 8.1).
func withoutMark(body []byte) []byte { return bytes.TrimPrefix(body, []byte("\ufeff")) }

// signedHeaders has the headers of one payload after the checks of their form.
type signedHeaders struct {
	sha256, v1, v1a []string
	// standardID and standardTime are what v1 and v1a cover; empty without webhook-signature.
	standardID, standardTime string
	eventID                  string
	at                       int64
}

func rejected(code VerificationCode) error { return &VerificationError{Code: code} }

// headerReader remembers whether any header was malformed.
type headerReader struct {
	headers   http.Header
	malformed bool
}

// read returns the only value of a header; empty if it was not sent. A repeated header is malformed.
func (r *headerReader) read(name string, format *regexp.Regexp) string {
	var values []string
	for key, found := range r.headers {
		// Gateways pass maps with names in lower case.
		if strings.EqualFold(key, name) {
			values = append(values, found...)
		}
	}
	if len(values) == 0 {
		return ""
	}
	if len(values) > 1 || !format.MatchString(values[0]) {
		r.malformed = true
		return ""
	}
	return values[0]
}

func readHeaders(headers http.Header, brand string) (*signedHeaders, error) {
	reader := &headerReader{headers: headers}
	signature := reader.read("X-"+brand+"-Signature-256", sha256Format)
	alternative := reader.read("X-"+brand+"-Signature-256-Alt", sha256Format)
	timestamp := reader.read("X-"+brand+"-Timestamp", timestampFormat)
	found := &signedHeaders{eventID: reader.read("X-"+brand+"-Event-Id", idFormat)}
	hasStandard := found.readStandard(reader)
	if reader.malformed ||
		signature == "" && (alternative != "" || !hasStandard) ||
		signature != "" && timestamp == "" {
		return nil, rejected(HeadersMalformed)
	}
	for _, value := range []string{signature, alternative} {
		if value != "" {
			found.sha256 = append(found.sha256, value)
		}
	}
	found.at, _ = strconv.ParseInt(first(timestamp, found.standardTime), 10, 64)
	return found, nil
}

// readStandard reads the headers of Standard Webhooks, and reports whether they were sent.
func (s *signedHeaders) readStandard(reader *headerReader) bool {
	list := reader.read("webhook-signature", signaturesFormat)
	if list == "" {
		return false
	}
	entries := strings.Split(list, " ")
	if len(entries) > maxSignatures || len(list) > maxSignaturesBytes {
		reader.malformed = true
	}
	for _, entry := range entries {
		switch {
		case v1Format.MatchString(entry):
			s.v1 = append(s.v1, entry)
		case v1aFormat.MatchString(entry):
			s.v1a = append(s.v1a, entry)
		case strings.HasPrefix(entry, "v1,") || !otherVersionFormat.MatchString(entry):
			// A truncated signature must not pass for one of another version.
			reader.malformed = true
		}
	}
	s.standardID = reader.read("webhook-id", idFormat)
	s.standardTime = reader.read("webhook-timestamp", timestampFormat)
	if s.standardID == "" || s.standardTime == "" {
		reader.malformed = true
	}
	return true
}

// readSecrets checks configured secrets and public keys, and returns them without surrounding white space.
func readSecrets(given []string) ([]string, error) {
	if len(given) == 0 {
		return nil, &secretError{"secrets is empty: a receiver needs at least one secret"}
	}
	secrets := make([]string, len(given))
	for i, secret := range given {
		// A file ends with a newline, and an editor may begin it with a byte order mark.
		secret = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(secret), "\ufeff"))
		var err error
		switch {
		case secret == "":
			return nil, &secretError{fmt.Sprintf("secrets[%d] is empty", i)}
		case strings.HasPrefix(secret, publicKeyPrefix):
			_, err = decodePublicKey(secret)
		case strings.HasPrefix(secret, secretPrefix):
			_, err = decodeSecret(secret)
		default:
			const want = "neither with whsec_ (a secret) nor with whpk_ (a public key)"
			return nil, &secretError{fmt.Sprintf("secrets[%d] begins %s", i, want)}
		}
		if err != nil {
			return nil, &secretError{fmt.Sprintf("secrets[%d] is malformed: %s", i, strings.TrimPrefix(err.Error(), "signet: "))}
		}
		secrets[i] = secret
	}
	return secrets, nil
}

// decodeSecret returns the key of v1 signatures.
func decodeSecret(secret string) ([]byte, error) {
	if !secretFormat.MatchString(secret) {
		return nil, ErrSecret
	}
	key, err := base64.StdEncoding.Strict().DecodeString(strings.TrimPrefix(secret, secretPrefix))
	if err != nil || len(key) < 24 || len(key) > 64 {
		return nil, ErrSecret
	}
	return key, nil
}

func decodePublicKey(text string) (ed25519.PublicKey, error) {
	if !publicKeyFormat.MatchString(text) {
		return nil, ErrSecret
	}
	key, err := base64.StdEncoding.Strict().DecodeString(strings.TrimPrefix(text, publicKeyPrefix))
	if err != nil {
		return nil, ErrSecret
	}
	if isWeakPoint(key) {
		return nil, &secretError{"the public key is a point of small order, or not in its normal form"}
	}
	return key, nil
}

// prime is that of Curve25519, and weakPoints has the y coordinates of its points of order 1, 2, 4 and 8. As keys, they have
// signatures that hold for any text.
var (
	prime, _   = new(big.Int).SetString("7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffed", 16)
	eighth, _  = new(big.Int).SetString("05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826", 16)
	weakPoints = []*big.Int{
		new(big.Int), big.NewInt(1), new(big.Int).Sub(prime, big.NewInt(1)), eighth, new(big.Int).Sub(prime, eighth),
	}
)

// isWeakPoint also reports points that are not in their normal form.
func isWeakPoint(key []byte) bool {
	// The last bit is the sign of x (RFC 8032 section 5.1.2).
	encoded := bytes.Clone(key)
	slices.Reverse(encoded)
	encoded[0] &= 0x7f
	y := new(big.Int).SetBytes(encoded)
	return y.Cmp(prime) >= 0 || slices.ContainsFunc(weakPoints, func(weak *big.Int) bool { return y.Cmp(weak) == 0 })
}

// signBody is keyed with the text of the secret as shown, and signMessage with its decoded bytes. So neither signature can
// pass for the other.
func signBody(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

func signMessage(key []byte, id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

func anyEqual(values []string, expected string) bool {
	equal := 0
	for _, value := range values {
		equal |= subtle.ConstantTimeCompare([]byte(value), []byte(expected))
	}
	return equal == 1
}

// matchingScheme prefers v1 and v1a, which also cover time and id. Every secret that it reads must be well-formed.
func matchingScheme(found *signedHeaders, secrets []string, body []byte) (Scheme, error) {
	var match Scheme
	for _, secret := range secrets {
		if strings.HasPrefix(secret, publicKeyPrefix) {
			key, err := decodePublicKey(secret)
			if err != nil {
				return "", err
			}
			if found.matchesPublicKey(key, body) {
				return SchemeV1a, nil
			}
			continue
		}
		key, err := decodeSecret(secret)
		if err != nil {
			return "", err
		}
		if len(found.v1) > 0 && anyEqual(found.v1, signMessage(key, found.standardID, found.standardTime, body)) {
			return SchemeV1, nil
		}
		if len(found.sha256) > 0 && anyEqual(found.sha256, signBody(secret, body)) {
			match = SchemeSHA256
		}
	}
	if match == "" {
		return "", rejected(SignatureInvalid)
	}
	return match, nil
}

func (s *signedHeaders) matchesPublicKey(key ed25519.PublicKey, body []byte) bool {
	message := append([]byte(s.standardID+"."+s.standardTime+"."), body...)
	for _, entry := range s.v1a {
		value, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(entry, "v1a,"))
		if err == nil && ed25519.Verify(key, message, value) {
			return true
		}
	}
	return false
}

func checkAge(at int64, options VerifyOptions) error {
	now, tolerance, future := options.Now, options.Tolerance, options.Future
	if now.IsZero() {
		now = time.Now()
	}
	if tolerance == 0 {
		tolerance = defaultTolerance
	}
	if future == 0 {
		future = defaultFuture
	}
	// Timestamps are whole seconds, so the clock is read in whole seconds: exactly 300 s is accepted.
	age := float64(now.Unix() - at)
	switch {
	case age > tolerance.Seconds():
		return rejected(PayloadExpired)
	case -age > future.Seconds():
		return rejected(TimestampMismatch)
	}
	return nil
}

// membersOf returns the members of a JSON object; none for anything else.
func membersOf(body []byte) map[string]json.RawMessage {
	var members map[string]json.RawMessage
	if !utf8.Valid(body) || json.Unmarshal(body, &members) != nil {
		return nil
	}
	return members
}

// stringOf returns a member that is a string.
func stringOf(members map[string]json.RawMessage, name string) (string, bool) {
	text := bytes.TrimSpace(members[name])
	var value string
	if len(text) == 0 || text[0] != '"' || json.Unmarshal(text, &value) != nil {
		return "", false
	}
	return value, true
}

// checkSentAt compares all times. X-Service-Signature-256 covers the body alone, so the time must be in there: otherwise an
// old payload with a new header would be accepted.
func checkSentAt(found *signedHeaders, scheme Scheme, members map[string]json.RawMessage) error {
	if found.standardTime != "" && found.standardTime != strconv.FormatInt(found.at, 10) {
		return rejected(TimestampMismatch)
	}
	text, sent := members["sent_at"]
	if !sent {
		if scheme == SchemeSHA256 {
			return rejected(TimestampMismatch)
		}
		return nil
	}
	sentAt := math.NaN()
	if json.Unmarshal(text, &sentAt) != nil || sentAt != float64(found.at) {
		return rejected(TimestampMismatch)
	}
	return nil
}

// checkID sets the authenticated id. A header that differs from it was forged to get a duplicate past the receiver.
func checkID(payload *Payload, found *signedHeaders) error {
	payload.ID, payload.signsID = found.standardID, true
	if payload.Scheme == SchemeSHA256 {
		payload.ID, payload.signsID = stringOf(payload.members, "id")
	}
	if !payload.signsID {
		return nil
	}
	for _, claim := range []string{found.standardID, found.eventID} {
		if claim != "" && claim != payload.ID {
			return rejected(IDMismatch)
		}
	}
	return nil
}

// Sign returns the headers of a delivery, to test a receiver. The id is that of the event.
func Sign(secret, id string, at time.Time, body []byte) (http.Header, error) {
	key, err := decodeSecret(secret)
	if err != nil {
		return nil, err
	}
	if !idFormat.MatchString(id) {
		return nil, errors.New("signet: a signed id has 1 to 256 printable characters and no dot")
	}
	timestamp := strconv.FormatInt(at.Unix(), 10)
	headers := http.Header{}
	headers.Set("X-Service-Signature-256", signBody(secret, body))
	headers.Set("X-Service-Timestamp", timestamp)
	headers.Set("X-Service-Event-Id", id)
	headers.Set("webhook-id", id)
	headers.Set("webhook-timestamp", timestamp)
	headers.Set("webhook-signature", signMessage(key, id, timestamp, body))
	return headers, nil
}
