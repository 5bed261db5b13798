package signet

import "encoding/json"

// Nullable is a member of a change that can be set, set to null, or left as it is: [Set], [Null] or nil.
type Nullable[T any] struct{ value *T }

// Set changes a member to a value.
func Set[T any](value T) *Nullable[T] { return &Nullable[T]{&value} }

// Null changes a member to null.
func Null[T any]() *Nullable[T] { return &Nullable[T]{} }

// MarshalJSON returns the value, or null.
func (n Nullable[T]) MarshalJSON() ([]byte, error) {
	if n.value == nil {
		return []byte("null"), nil
	}
	return encodeJSON(*n.value)
}

// UnmarshalJSON reads the value, or null.
func (n *Nullable[T]) UnmarshalJSON(text []byte) error { return json.Unmarshal(text, &n.value) }

// Ptr returns a pointer to a value, for optional members whose zero value has a meaning.
func Ptr[T any](value T) *T { return &value }
