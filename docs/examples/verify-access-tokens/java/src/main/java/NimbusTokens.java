// region verify
import com.nimbusds.jose.JOSEObjectType;
import com.nimbusds.jose.JWSAlgorithm;
import com.nimbusds.jose.jwk.source.JWKSourceBuilder;
import com.nimbusds.jose.proc.BadJOSEException;
import com.nimbusds.jose.proc.DefaultJOSEObjectTypeVerifier;
import com.nimbusds.jose.proc.JWSVerificationKeySelector;
import com.nimbusds.jose.proc.SecurityContext;
import com.nimbusds.jose.util.X509CertUtils;
import com.nimbusds.jwt.JWTClaimsSet;
import com.nimbusds.jwt.proc.DefaultJWTClaimsVerifier;
import com.nimbusds.jwt.proc.DefaultJWTProcessor;
import java.net.MalformedURLException;
import java.net.URI;
import java.security.cert.X509Certificate;
import java.util.Map;
import java.util.Set;

/** Verifies Signet's access tokens. */
final class NimbusTokens {
  private final DefaultJWTProcessor<SecurityContext> processor = new DefaultJWTProcessor<>();

  NimbusTokens(String issuer, String audience) throws MalformedURLException {
    // Keeps the key set for five minutes, and reads it again for an unknown key id.
    var keys =
        JWKSourceBuilder.create(URI.create(issuer + "/.well-known/jwks.json").toURL()).build();
    processor.setJWSTypeVerifier(
        new DefaultJOSEObjectTypeVerifier<>(new JOSEObjectType("at+jwt")));
    processor.setJWSKeySelector(new JWSVerificationKeySelector<>(JWSAlgorithm.ES256, keys));
    processor.setJWTClaimsSetVerifier(
        new DefaultJWTClaimsVerifier<>(
            audience,
            new JWTClaimsSet.Builder().issuer(issuer).build(),
            Set.of("exp", "iat", "sub", "client_id", "jti")));
  }

  /** Returns the claims. The certificate is the client's, or null. */
  JWTClaimsSet verify(String token, X509Certificate certificate) throws Exception {
    JWTClaimsSet claims = processor.process(token, null);
    if (claims.getClaim("cnf") instanceof Map<?, ?> cnf
        && cnf.get("x5t#S256") instanceof String bound
        && (certificate == null
            || !bound.equals(X509CertUtils.computeSHA256Thumbprint(certificate).toString()))) {
      throw new BadJOSEException("the token belongs to another certificate");
    }
    return claims;
  }
}
// endregion
