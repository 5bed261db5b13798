package signet

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestReadmeListsEveryCall compares the table of README.md with the client.
func TestReadmeListsEveryCall(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	client := reflect.TypeOf(Client{})
	count := 0
	for i := range client.NumField() {
		field := client.Field(i)
		if !field.IsExported() {
			continue
		}
		count++
		prefix := fmt.Sprintf("| `%s` | ", field.Name)
		_, row, _ := strings.Cut(string(text), prefix)
		row, _, _ = strings.Cut(row, " |\n")
		listed := strings.Split(strings.ReplaceAll(row, "`", ""), ", ")
		slices.Sort(listed)
		var methods []string
		for j := range field.Type.NumMethod() {
			methods = append(methods, field.Type.Method(j).Name)
		}
		if !slices.Equal(listed, methods) {
			t.Errorf("%s: %v, not %v", field.Name, listed, methods)
		}
	}
	if count < 9 {
		t.Errorf("%d members", count)
	}
}
