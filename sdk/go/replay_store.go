package signet

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// ReplayStore remembers the ids of events, so that each is processed once. Processes that share an endpoint share a store.
type ReplayStore interface {
	// Seen remembers an id until the given time and reports whether it was known. It is atomic: of two concurrent calls, one
	// gets false.
	Seen(ctx context.Context, id string, until time.Time) (bool, error)
	// Forget forgets an id whose event could not be processed, so that the next attempt is accepted.
	Forget(ctx context.Context, id string) error
}

// MemoryReplayStore is a [ReplayStore] in the memory of one process.
type MemoryReplayStore struct {
	mu    sync.Mutex
	max   int
	order *list.List
	known map[string]*list.Element
}

type remembered struct {
	id    string
	until time.Time
}

const defaultMaxIDs = 100_000

// NewMemoryReplayStore creates a store of at most max ids, 100,000 if it is not positive. It drops the oldest first.
func NewMemoryReplayStore(max int) *MemoryReplayStore {
	if max <= 0 {
		max = defaultMaxIDs
	}
	return &MemoryReplayStore{max: max, order: list.New(), known: map[string]*list.Element{}}
}

// Seen implements [ReplayStore].
func (s *MemoryReplayStore) Seen(_ context.Context, id string, until time.Time) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if entry := s.known[id]; entry != nil {
		if entry.Value.(remembered).until.After(time.Now()) {
			return true, nil
		}
		s.remove(entry)
	}
	if len(s.known) >= s.max {
		s.remove(s.order.Front())
	}
	s.known[id] = s.order.PushBack(remembered{id, until})
	return false, nil
}

// Forget implements [ReplayStore].
func (s *MemoryReplayStore) Forget(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if entry := s.known[id]; entry != nil {
		s.remove(entry)
	}
	return nil
}

func (s *MemoryReplayStore) remove(entry *list.Element) {
	delete(s.known, entry.Value.(remembered).id)
	s.order.Remove(entry)
}
