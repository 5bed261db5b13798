/** Pattern of accepted SPIFFE ids: a trust domain and a path, of characters that need no escapes. */
export const SPIFFE_ID = "^spiffe://[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)+$";
