package signet

import (
	"context"
	"encoding/json"
	"errors"
)

// StoredSecret is a client secret with its version; zero while the version is unknown.
type StoredSecret struct {
	Secret  string
	Version int
}

// String keeps the secret out of logs.
func (StoredSecret) String() string { return "[secret]" }

// GoString keeps the secret out of logs.
func (StoredSecret) GoString() string { return "[secret]" }

// StoredCredential is the content of a [CredentialStore]. Its JSON is that of all clients of Signet, and of the agent. It can
// also be read from a credential as the service created it.
type StoredCredential struct {
	ClientID string
	// Current is known to work.
	Current StoredSecret
	// Next is stored and perhaps used already; nil without one.
	Next *StoredSecret
}

// CredentialStore is a durable store for one credential: a file, a secret manager. Several processes may share it. It is
// read before every token request, so that all of them use an update by one.
type CredentialStore interface {
	// Load returns the credential; nil if there is none.
	Load(ctx context.Context) (*StoredCredential, error)
	// Save replaces it atomically. It returns once the credential would survive a power failure, and an error otherwise: then
	// the successor is not used, and the current secret keeps working.
	Save(ctx context.Context, credential *StoredCredential) error
}

type secretJSON struct {
	Secret  string `json:"client_secret"`
	Version *int   `json:"version"`
}

type credentialJSON struct {
	ClientID string      `json:"client_id"`
	Current  *secretJSON `json:"current"`
	Next     *secretJSON `json:"next"`
}

func (s StoredSecret) json() *secretJSON {
	if s.Version == 0 {
		return &secretJSON{Secret: s.Secret}
	}
	return &secretJSON{s.Secret, &s.Version}
}

func (s *secretJSON) stored() *StoredSecret {
	if s == nil || s.Secret == "" {
		return nil
	}
	if s.Version == nil {
		return &StoredSecret{Secret: s.Secret}
	}
	return &StoredSecret{s.Secret, *s.Version}
}

// MarshalJSON returns the form that a store keeps. It contains the secrets.
func (c StoredCredential) MarshalJSON() ([]byte, error) {
	value := credentialJSON{ClientID: c.ClientID, Current: c.Current.json()}
	if c.Next != nil {
		value.Next = c.Next.json()
	}
	return json.Marshal(value)
}

// UnmarshalJSON reads a stored credential, or one as the service created it. Its errors do not quote the text.
func (c *StoredCredential) UnmarshalJSON(text []byte) error {
	var value struct {
		credentialJSON
		secretJSON
	}
	if json.Unmarshal(text, &value) != nil {
		return errors.New("the stored credential is invalid JSON")
	}
	current := value.Current.stored()
	if current == nil {
		current = value.secretJSON.stored()
	}
	if value.ClientID == "" || current == nil {
		return errors.New("the stored credential lacks client_id or client_secret")
	}
	next := value.Next.stored()
	if next != nil && next.Version == 0 {
		next = nil
	}
	*c = StoredCredential{ClientID: value.ClientID, Current: *current, Next: next}
	return nil
}

// clientSecret is a candidate for the token endpoint. The secret is empty if a certificate or an assertion authenticates.
type clientSecret struct{ clientID, secret string }

// withSuccessor returns what to store after the presented secret was answered with a successor. It returns the argument if
// that is stored, or if the store is newer because another process has written it: no write may put an older version over
// a newer one.
func withSuccessor(stored *StoredCredential, presented clientSecret, successor StoredSecret) *StoredCredential {
	if stored != nil && stored.ClientID == presented.clientID && stored.isAhead(successor.Version) {
		return stored
	}
	return &StoredCredential{
		ClientID: presented.clientID,
		Current:  StoredSecret{presented.secret, successor.Version - 1},
		Next:     &successor,
	}
}

func (c *StoredCredential) isAhead(version int) bool {
	return c.Current.Version >= version || c.Next != nil && c.Next.Version >= version
}

// withAccepted returns what to store after a secret was accepted: a next one that works becomes the current one.
func withAccepted(stored *StoredCredential, secret string) *StoredCredential {
	if stored.Next == nil || stored.Next.Secret != secret {
		return stored
	}
	return &StoredCredential{ClientID: stored.ClientID, Current: *stored.Next}
}
