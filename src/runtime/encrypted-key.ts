/** Whether a private key in PEM is encrypted, in PKCS #8 or OpenSSL's older form (RFC 7468 section 11, RFC 1421). */
export function isEncryptedKey(pem: string): boolean {
  return /^-----BEGIN ENCRYPTED |^Proc-Type: 4,ENCRYPTED/m.test(pem);
}

/** The end of a sentence that begins with the setting or the file of an encrypted key. */
export const ENCRYPTED_KEY =
  "is encrypted, and Signet asks for no passphrase: decrypt it with `openssl pkey -in FILE -out NEW_FILE`";
