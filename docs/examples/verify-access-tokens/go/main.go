package main

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"log"
	"os"
	"strings"
)

// main verifies each line of the standard input: a token, and the client's certificate in base64 if there is one.
func main() {
	verifier, err := NewVerifier(context.Background(), os.Getenv("ISSUER"), os.Getenv("AUDIENCE"))
	if err != nil {
		log.Fatal(err)
	}
	lines := bufio.NewScanner(os.Stdin)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		token, encoded, _ := strings.Cut(lines.Text(), " ")
		var certificate *x509.Certificate
		if der, _ := base64.StdEncoding.DecodeString(encoded); len(der) > 0 {
			if certificate, err = x509.ParseCertificate(der); err != nil {
				log.Fatal(err)
			}
		}
		if claims, err := verifier.Verify(token, certificate); err != nil {
			answers.Encode(map[string]string{"refused": err.Error()})
		} else {
			answers.Encode(map[string]string{"sub": claims.Subject})
		}
	}
}
