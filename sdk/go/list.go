package signet

import (
	"context"
	"iter"
	"maps"
	"net/url"
)

// Page is one page of a list.
type Page[T any] struct {
	Data []T `json:"data"`
	// NextCursor is the cursor of the next page; nil on the last one.
	NextCursor *string `json:"next_cursor"`
}

// List is a list that is read page by page.
type List[T any] struct {
	transport *transport
	path      string
	query     url.Values
}

// PerPage returns the list with this number of items per page, 1 to 100.
func (l List[T]) PerPage(limit int) List[T] {
	l.query = maps.Clone(l.query)
	if l.query == nil {
		l.query = url.Values{}
	}
	setInt(l.query, "limit", int64(limit))
	return l
}

// Page returns the page at a cursor; the first one for an empty cursor.
func (l List[T]) Page(ctx context.Context, cursor string) (*Page[T], error) {
	query := maps.Clone(l.query)
	if query == nil {
		query = url.Values{}
	}
	set(query, "cursor", cursor)
	return get[Page[T]](ctx, l.transport, l.path, query)
}

// All reads pages as they are needed:
//
//	for endpoint, err := range client.Endpoints.List(signet.EndpointQuery{}).All(ctx) {
//		if err != nil {
//			return err
//		}
//	}
//
// The loop ends after the first error.
func (l List[T]) All(ctx context.Context) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for cursor := ""; ; {
			page, err := l.Page(ctx, cursor)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range page.Data {
				if !yield(item, nil) {
					return
				}
			}
			if page.NextCursor == nil {
				return
			}
			cursor = *page.NextCursor
		}
	}
}
