package signet

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

const (
	ownerOnly = 0o600
	others    = 0o077
	// maxCredential is far above any credential, so that a wrong path does not fill the memory.
	maxCredential = 64 << 10
	// leftover is the age of a temporary file that a killed process has left.
	leftover = time.Minute
)

var errNoPath = errors.New("the path of the credential's file is not set")

// FileCredentialStore is a [CredentialStore] in a file. It writes a temporary file, syncs it, renames it over the old one and
// syncs the directory. So the disk always has a complete credential. Processes may share the file without a lock.
type FileCredentialStore struct {
	// Warn receives a warning if others can read the file; slog by default.
	Warn func(Warning)

	path   string
	warned sync.Once
}

// NewFileCredentialStore returns a store in the file at the path. The file need not exist yet; its directory must. [NewClient]
// refuses a store without a path, for instance of a variable that is not set.
func NewFileCredentialStore(path string) *FileCredentialStore {
	return &FileCredentialStore{path: path, Warn: logWarning}
}

// String returns the path, for messages.
func (s *FileCredentialStore) String() string { return s.path }

// Load implements [CredentialStore].
func (s *FileCredentialStore) Load(context.Context) (*StoredCredential, error) {
	if s.path == "" {
		return nil, errNoPath
	}
	file, err := os.Open(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := s.warnIfExposed(file); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, maxCredential+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxCredential {
		return nil, fmt.Errorf("%s is longer than a credential", s.path)
	}
	// Editors on Windows write a byte order mark.
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	var credential StoredCredential
	if err := json.Unmarshal(text, &credential); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, fmt.Errorf("%s is not JSON", s.path)
		}
		return nil, fmt.Errorf("%s: %w", s.path, err)
	}
	return &credential, nil
}

// Save implements [CredentialStore].
func (s *FileCredentialStore) Save(_ context.Context, credential *StoredCredential) error {
	text, err := json.MarshalIndent(credential, "", "  ")
	if err != nil {
		return err
	}
	target := s.path
	// A rename would replace a link, not what it leads to.
	if resolved, err := filepath.EvalSymlinks(s.path); err == nil {
		target = resolved
	}
	suffix := make([]byte, 6)
	if _, err := rand.Read(suffix); err != nil {
		return err
	}
	temporary := fmt.Sprintf("%s.%d.%s.tmp", target, os.Getpid(), hex.EncodeToString(suffix))
	if err := writeDurably(temporary, append(text, '\n')); err != nil {
		_ = os.Remove(temporary)
		return err
	}
	if err := os.Rename(temporary, target); err != nil {
		_ = os.Remove(temporary)
		return err
	}
	if err := syncDirectory(filepath.Dir(target)); err != nil {
		return err
	}
	removeLeftovers(target)
	return nil
}

func (s *FileCredentialStore) warnIfExposed(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&others != 0 && s.Warn != nil {
		s.warned.Do(func() {
			s.Warn(Warning{Code: "STORE_EXPOSED", Message: "others can read " + s.path + ": chmod 600"})
		})
	}
	return nil
}

// writeDurably creates the file. It does not follow a planted link.
func writeDurably(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, ownerOnly)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Sync(), file.Close())
}

func syncDirectory(path string) error {
	if runtime.GOOS == "windows" {
		// Windows cannot sync a directory.
		return nil
	}
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}

func removeLeftovers(target string) {
	entries, _ := os.ReadDir(filepath.Dir(target))
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasPrefix(name, filepath.Base(target)+".") || !strings.HasSuffix(name, ".tmp") {
			continue
		}
		if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > leftover {
			_ = os.Remove(filepath.Join(filepath.Dir(target), name))
		}
	}
}
