package signet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// storeTimeout exists because a hanging store must not block tokens.
const storeTimeout = 10 * time.Second

// credentialKeeper decides which secrets to present, in which order, and what to store from the answers.
type credentialKeeper struct {
	// configured is the program's own credential; nil if the store holds it.
	configured *clientSecret
	store      CredentialStore
	warn       func(Warning)

	mu sync.Mutex
	// known is the last content of the store that could be read.
	known *StoredCredential
	// unreadable is why the store could not be read the last time.
	unreadable error
	// rejectedNext is a stored successor that the service does not know. It is no longer presented first.
	rejectedNext string
}

// candidates returns the secrets to present, best first: the stored successor, the stored secret, the configured one.
func (k *credentialKeeper) candidates(ctx context.Context) ([]clientSecret, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.load(ctx)
	var found []clientSecret
	if k.known != nil {
		current := clientSecret{k.known.ClientID, k.known.Current.Secret}
		found = append(found, current)
		if next := k.known.Next; next != nil {
			successor := clientSecret{k.known.ClientID, next.Secret}
			if next.Secret == k.rejectedNext {
				found = append(found, successor)
			} else {
				found = []clientSecret{successor, current}
			}
		}
	}
	if k.configured != nil && !containsSecret(found, k.configured.secret) {
		found = append(found, *k.configured)
	}
	if len(found) == 0 {
		return nil, k.missing()
	}
	return found, nil
}

func (k *credentialKeeper) missing() error {
	if k.unreadable != nil {
		return &CredentialError{Detail: "there is no credential", Err: k.unreadable}
	}
	where := "the store has none"
	if named, ok := k.store.(fmt.Stringer); ok {
		where = named.String() + " does not exist"
	}
	return &CredentialError{Detail: "there is no credential: none is configured, and " + where}
}

func containsSecret(found []clientSecret, secret string) bool {
	for _, candidate := range found {
		if candidate.secret == secret {
			return true
		}
	}
	return false
}

func (k *credentialKeeper) load(ctx context.Context) {
	if k.store == nil {
		return
	}
	stored, err := inTime(ctx, k.store.Load)
	k.unreadable = err
	if err != nil {
		k.warn(Warning{
			"STORE_UNREADABLE", "the stored credential cannot be read; going on with what is known", err,
		})
		return
	}
	if k.configured != nil && stored != nil && stored.ClientID != k.configured.clientID {
		// The program was given another credential than the stored one.
		stored = nil
	}
	k.known = stored
}

// rejected records that a candidate was rejected as an invalid client.
func (k *credentialKeeper) rejected(candidate clientSecret) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known != nil && k.known.Next != nil && candidate.secret == k.known.Next.Secret {
		k.rejectedNext = candidate.secret
	}
}

// accepted records that a candidate was accepted, with its successor if any. It does not fail: there is a token already.
func (k *credentialKeeper) accepted(ctx context.Context, candidate clientSecret, successor *StoredSecret) {
	if candidate.secret == "" {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.save(ctx, candidate, successor); err != nil && successor != nil {
		k.warn(Warning{
			"SUCCESSOR_NOT_STORED",
			"the service has named this secret's successor and it cannot be stored: the present one is kept, and ends when its overlap does",
			err,
		})
	}
}

// save reads again right before it writes: another process may have written since.
func (k *credentialKeeper) save(ctx context.Context, candidate clientSecret, successor *StoredSecret) error {
	if k.store == nil {
		return errors.New("no store is configured")
	}
	stored, err := inTime(ctx, k.store.Load)
	if err != nil {
		return err
	}
	wanted := k.changed(stored, candidate, successor)
	if wanted != nil && wanted != stored {
		_, err = inTime(ctx, func(ctx context.Context) (*StoredCredential, error) {
			return nil, k.store.Save(ctx, wanted)
		})
		if err != nil {
			return err
		}
	}
	if wanted == nil || wanted.Next == nil || wanted.Next.Secret != k.rejectedNext {
		k.rejectedNext = ""
	}
	return nil
}

func (k *credentialKeeper) changed(
	stored *StoredCredential, candidate clientSecret, successor *StoredSecret,
) *StoredCredential {
	var ours *StoredCredential
	if stored != nil && stored.ClientID == candidate.clientID {
		ours = withAccepted(stored, candidate.secret)
	}
	if successor == nil {
		return ours
	}
	if ours != nil && ours.Next != nil && ours.Next.Secret == k.rejectedNext {
		// The named successor replaces one that the service does not know.
		ours = &StoredCredential{ClientID: ours.ClientID, Current: ours.Current}
	}
	return withSuccessor(ours, candidate, *successor)
}

// inTime returns after the time for a store even if the store ignores its context.
func inTime(
	ctx context.Context, operation func(context.Context) (*StoredCredential, error),
) (*StoredCredential, error) {
	type result struct {
		credential *StoredCredential
		err        error
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	done := make(chan result, 1)
	go func() {
		credential, err := operation(ctx)
		done <- result{credential, err}
	}()
	select {
	case found := <-done:
		return found.credential, found.err
	case <-ctx.Done():
		return nil, &CredentialError{Detail: fmt.Sprintf("the store took more than %v", storeTimeout)}
	}
}
