package signet

import (
	"context"
	"fmt"
)

const (
	eventTypesPath  = "/v1/webhooks/event-types"
	credentialsPath = "/v1/credentials"
	compliancePath  = "/v1/compliance"
)

// EventTypes is the catalogue of event types.
type EventTypes struct{ api *transport }

// Create adds a type.
func (e *EventTypes) Create(ctx context.Context, eventType NewEventType, options ...CallOption) (*EventType, error) {
	return post[EventType](ctx, e.api, eventTypesPath, eventType, options)
}

// List lists types by name, without archived ones by default.
func (e *EventTypes) List(query EventTypeQuery) List[EventType] {
	return List[EventType]{e.api, eventTypesPath, query.values()}
}

// Get returns a type.
func (e *EventTypes) Get(ctx context.Context, name string) (*EventType, error) {
	return get[EventType](ctx, e.api, eventTypesPath+"/"+segment(name), nil)
}

// Update changes a type. A schema that differs from the current one becomes its next version. Members that are nil stay.
func (e *EventTypes) Update(ctx context.Context, name string, change EventTypeChange) (*EventType, error) {
	return patch[EventType](ctx, e.api, eventTypesPath+"/"+segment(name), change)
}

// Delete deletes a type. Its events are then accepted unchecked.
func (e *EventTypes) Delete(ctx context.Context, name string) error {
	return e.api.remove(ctx, eventTypesPath+"/"+segment(name))
}

// Versions lists the versions of the type's schema, newest first.
func (e *EventTypes) Versions(name string) List[EventTypeSchema] {
	return List[EventTypeSchema]{e.api, eventTypesPath + "/" + segment(name) + "/versions", nil}
}

// Credentials are the tenant's own.
type Credentials struct{ api *transport }

func credentialPath(id string) string { return credentialsPath + "/" + segment(id) }

// reason is the body of a revocation.
type reason struct {
	Target string `json:"target,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Create creates a credential, or replaces one. The answer has its secret.
func (c *Credentials) Create(
	ctx context.Context, credential NewCredential, options ...CallOption,
) (*CreatedCredential, error) {
	return post[CreatedCredential](ctx, c.api, credentialsPath, credential, options)
}

// List lists the credentials.
func (c *Credentials) List() List[Credential] { return List[Credential]{c.api, credentialsPath, nil} }

// Get returns a credential with the versions of its secret.
func (c *Credentials) Get(ctx context.Context, id string) (*CredentialDetails, error) {
	return get[CredentialDetails](ctx, c.api, credentialPath(id), nil)
}

// Revoke ends a credential and all its tokens permanently, everywhere, within 250 ms. The reason may be empty. It goes into
// the compliance log, so it must not have personal data.
func (c *Credentials) Revoke(
	ctx context.Context, id, why string, options ...CallOption,
) (*Revocation, error) {
	return post[Revocation](ctx, c.api, credentialPath(id)+"/revoke", reason{Reason: why}, options)
}

// RevokeLeaked finds and revokes what leaked, if it is the tenant's: a client id, a credential's id, a client secret, a
// signing secret, a whole token, or a certificate's SHA-256. The reason may be empty.
func (c *Credentials) RevokeLeaked(
	ctx context.Context, target, why string, options ...CallOption,
) (*LeakRevocation, error) {
	return post[LeakRevocation](ctx, c.api, "/v1/revocations", reason{target, why}, options)
}

func signingSecretPath(id string) string { return credentialPath(id) + "/signing-secret" }

// CreateSigningSecret creates the credential's signing secret, or its next version. The previous version stays valid for the
// overlap; 24 hours for nil, and 0 ends all others now.
func (c *Credentials) CreateSigningSecret(
	ctx context.Context, id string, overlapSeconds *int64, options ...CallOption,
) (*CreatedSigningSecret, error) {
	type rotation struct {
		OverlapSeconds *int64 `json:"overlap_seconds,omitempty"`
	}
	return post[CreatedSigningSecret](ctx, c.api, signingSecretPath(id), rotation{overlapSeconds}, options)
}

// SigningSecrets lists the versions of the credential's signing secret, newest first.
func (c *Credentials) SigningSecrets(ctx context.Context, id string) ([]SigningSecret, error) {
	return dataOf(get[data[SigningSecret]](ctx, c.api, signingSecretPath(id), nil))
}

// RevokeSigningSecrets ends a version at once and erases it; all versions for 0. The reason may be empty.
func (c *Credentials) RevokeSigningSecrets(
	ctx context.Context, id string, version int64, why string, options ...CallOption,
) ([]SigningSecret, error) {
	type revocation struct {
		Version int64  `json:"version,omitempty"`
		Reason  string `json:"reason,omitempty"`
	}
	body := revocation{version, why}
	return dataOf(post[data[SigningSecret]](ctx, c.api, signingSecretPath(id)+"/revoke", body, options))
}

// RequireSignature sets whether the credential must sign what it publishes.
func (c *Credentials) RequireSignature(ctx context.Context, id string, required bool) (*Credential, error) {
	type change struct {
		SignatureRequired bool `json:"signature_required"`
	}
	return patch[Credential](ctx, c.api, credentialPath(id), change{required})
}

// Compliance is the tenant's compliance log.
type Compliance struct{ api *transport }

// List lists entries, newest first.
func (c *Compliance) List(query ComplianceQuery) List[ComplianceEntry] {
	return List[ComplianceEntry]{c.api, compliancePath + "/entries", query.values()}
}

// Get returns an entry with the bytes that its hash covers.
func (c *Compliance) Get(ctx context.Context, index int64) (*ComplianceEntryWithBytes, error) {
	return get[ComplianceEntryWithBytes](ctx, c.api, fmt.Sprintf("%s/entries/%d", compliancePath, index), nil)
}

// Checkpoint returns the newest signed checkpoint.
func (c *Compliance) Checkpoint(ctx context.Context) (*ComplianceCheckpoint, error) {
	return get[ComplianceCheckpoint](ctx, c.api, compliancePath+"/checkpoint", nil)
}

// Portal creates sign-in links.
type Portal struct{ api *transport }

// CreateLink creates a one-time link that signs a browser in. It needs the scope portal:sign_in.
func (p *Portal) CreateLink(ctx context.Context, link NewPortalLink, options ...CallOption) (*PortalLink, error) {
	return post[PortalLink](ctx, p.api, "/v1/portal/links", link, options)
}
