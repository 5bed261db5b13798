package signet

import "context"

const endpointsPath = "/v1/webhooks/endpoints"

// Endpoints are the destinations of webhooks.
type Endpoints struct{ api *transport }

func endpointPath(id string) string { return endpointsPath + "/" + segment(id) }

// Create registers an endpoint and sends it a signed ping. The answer is the only one with the secret.
func (e *Endpoints) Create(
	ctx context.Context, endpoint NewEndpoint, options ...CallOption,
) (*RegisteredEndpoint, error) {
	return post[RegisteredEndpoint](ctx, e.api, endpointsPath, endpoint, options)
}

// List lists endpoints, newest first.
func (e *Endpoints) List(query EndpointQuery) List[Endpoint] {
	return List[Endpoint]{e.api, endpointsPath, query.values()}
}

// Get returns an endpoint.
func (e *Endpoints) Get(ctx context.Context, id string) (*Endpoint, error) {
	return get[Endpoint](ctx, e.api, endpointPath(id), nil)
}

// Update changes an endpoint. Members that are nil stay.
func (e *Endpoints) Update(ctx context.Context, id string, change EndpointChange) (*Endpoint, error) {
	return patch[Endpoint](ctx, e.api, endpointPath(id), change)
}

// Delete deletes an endpoint.
func (e *Endpoints) Delete(ctx context.Context, id string) error {
	return e.api.remove(ctx, endpointPath(id))
}

// Verify sends another ping to an endpoint that is still PENDING.
func (e *Endpoints) Verify(ctx context.Context, id string, options ...CallOption) (*Endpoint, error) {
	return post[Endpoint](ctx, e.api, endpointPath(id)+"/verify", nil, options)
}

// Enable pings a DISABLED endpoint. It is ACTIVE once it has acknowledged the ping.
func (e *Endpoints) Enable(ctx context.Context, id string, options ...CallOption) (*Endpoint, error) {
	return post[Endpoint](ctx, e.api, endpointPath(id)+"/enable", nil, options)
}

// Disable disables an endpoint. Its events become dead letters, which can be replayed once it is enabled again.
func (e *Endpoints) Disable(ctx context.Context, id string, options ...CallOption) (*Endpoint, error) {
	return post[Endpoint](ctx, e.api, endpointPath(id)+"/disable", nil, options)
}

// Test sends an event to this ACTIVE endpoint only. It returns the delivery, before the first attempt.
func (e *Endpoints) Test(ctx context.Context, id string, event TestEvent, options ...CallOption) (*Delivery, error) {
	return post[Delivery](ctx, e.api, endpointPath(id)+"/test", event, options)
}

// Grade grades the receiver of an ACTIVE endpoint with good and bad deliveries, which takes up to two minutes. Read the
// result with [Endpoints.GetGrade].
func (e *Endpoints) Grade(ctx context.Context, id string, options ...CallOption) (*Grade, error) {
	return post[Grade](ctx, e.api, endpointPath(id)+"/grade", nil, options)
}

// GetGrade returns a grade.
func (e *Endpoints) GetGrade(ctx context.Context, id, gradeID string) (*Grade, error) {
	return get[Grade](ctx, e.api, endpointPath(id)+"/grades/"+segment(gradeID), nil)
}

// ListGrades lists the stored grades of a receiver, newest first.
func (e *Endpoints) ListGrades(id string) List[GradeSummary] {
	return List[GradeSummary]{e.api, endpointPath(id) + "/grades", nil}
}

// CountMissing counts the events that [Endpoints.ReplayMissing] would deliver.
func (e *Endpoints) CountMissing(ctx context.Context, id string, which MissedEvents) (*ReplayCount, error) {
	return post[ReplayCount](ctx, e.api, endpointPath(id)+"/replay-missing", struct {
		MissedEvents
		DryRun bool `json:"dry_run"`
	}{which, true}, nil)
}

// ReplayMissing delivers missed events as a job: from before the endpoint was registered, or while it was not ACTIVE.
func (e *Endpoints) ReplayMissing(
	ctx context.Context, id string, which MissedEvents, options ...CallOption,
) (*ReplayJob, error) {
	return post[ReplayJob](ctx, e.api, endpointPath(id)+"/replay-missing", which, options)
}

// Secrets lists the versions of the endpoint's signing secret, without their values.
func (e *Endpoints) Secrets(ctx context.Context, id string) (*EndpointSecretVersions, error) {
	return get[EndpointSecretVersions](ctx, e.api, endpointPath(id)+"/secret", nil)
}

// UpdateSecrets changes the endpoint's signing settings and rotation schedule. Members that are nil stay.
func (e *Endpoints) UpdateSecrets(
	ctx context.Context, id string, change SecretSettings,
) (*EndpointSecretVersions, error) {
	return patch[EndpointSecretVersions](ctx, e.api, endpointPath(id)+"/secret", change)
}

// RotateSecret starts a rotation: both secrets sign until the overlap has ended. The answer is the only one with the new
// secret.
func (e *Endpoints) RotateSecret(
	ctx context.Context, id string, rotation SecretRotation, options ...CallOption,
) (*RotatedEndpointSecret, error) {
	return post[RotatedEndpointSecret](ctx, e.api, endpointPath(id)+"/secret/rotate", rotation, options)
}

// ActivateSecret makes the next secret the current one before its time.
func (e *Endpoints) ActivateSecret(
	ctx context.Context, id string, options ...CallOption,
) (*EndpointSecretVersions, error) {
	return post[EndpointSecretVersions](ctx, e.api, endpointPath(id)+"/secret/activate", nil, options)
}
