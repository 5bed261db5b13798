import java.time.Instant;
import java.util.List;
import java.util.Objects;
import org.springframework.security.oauth2.jose.jws.SignatureAlgorithm;
import org.springframework.security.oauth2.jwt.JwtAudienceValidator;
import org.springframework.security.oauth2.jwt.JwtClaimNames;
import org.springframework.security.oauth2.jwt.JwtClaimValidator;
import org.springframework.security.oauth2.jwt.JwtDecoder;
import org.springframework.security.oauth2.jwt.JwtIssuerValidator;
import org.springframework.security.oauth2.jwt.JwtTypeValidator;
import org.springframework.security.oauth2.jwt.JwtValidators;
import org.springframework.security.oauth2.jwt.NimbusJwtDecoder;

final class SpringTokens {
  private SpringTokens() {}

  // region decoder
  /** The `JwtDecoder` bean of a resource server. */
  static JwtDecoder jwtDecoder(String issuer, String audience) {
    NimbusJwtDecoder decoder =
        NimbusJwtDecoder.withJwkSetUri(issuer + "/.well-known/jwks.json")
            .jwsAlgorithm(SignatureAlgorithm.ES256)
            .validateType(false) // Its default permits JWT only; the validator below checks the type.
            .build();
    decoder.setJwtValidator(
        JwtValidators.createDefaultWithValidators(
            List.of(
                new JwtTypeValidator("at+jwt"),
                new JwtIssuerValidator(issuer),
                new JwtAudienceValidator(audience),
                new JwtClaimValidator<Instant>(JwtClaimNames.EXP, Objects::nonNull))));
    return decoder;
  }
  // endregion
}
