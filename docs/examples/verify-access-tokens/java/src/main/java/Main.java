import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.InputStreamReader;
import java.lang.reflect.Proxy;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.Base64;
import org.springframework.security.oauth2.jwt.JwtDecoder;
import org.springframework.web.context.request.RequestAttributes;
import org.springframework.web.context.request.RequestContextHolder;

/** Verifies each line of the standard input: a token, and the client's certificate in base64 if there is one. */
final class Main {
  private Main() {}

  @FunctionalInterface
  private interface Verifier {
    String subjectOf(String token, X509Certificate certificate) throws Exception;
  }

  private static Verifier named(String name, String issuer, String audience) throws Exception {
    if (name.equals("nimbus")) {
      NimbusTokens tokens = new NimbusTokens(issuer, audience);
      return (token, certificate) -> tokens.verify(token, certificate).getSubject();
    }
    JwtDecoder decoder = SpringTokens.jwtDecoder(issuer, audience);
    return (token, certificate) -> {
      RequestContextHolder.setRequestAttributes(requestWith(certificate));
      return decoder.decode(token).getSubject();
    };
  }

  /** A request as the servlet container describes it: its only attribute is the certificate. */
  private static RequestAttributes requestWith(X509Certificate certificate) {
    X509Certificate[] chain = certificate == null ? null : new X509Certificate[] {certificate};
    return (RequestAttributes)
        Proxy.newProxyInstance(
            Main.class.getClassLoader(),
            new Class<?>[] {RequestAttributes.class},
            (proxy, method, args) ->
                method.getName().equals("getAttribute")
                        && args[0].equals("jakarta.servlet.request.X509Certificate")
                    ? chain
                    : null);
  }

  private static X509Certificate certificate(String encoded) throws Exception {
    byte[] der = Base64.getDecoder().decode(encoded);
    return (X509Certificate)
        CertificateFactory.getInstance("X.509").generateCertificate(new ByteArrayInputStream(der));
  }

  public static void main(String[] arguments) throws Exception {
    Verifier verifier =
        named(arguments[0], System.getenv("ISSUER"), System.getenv("AUDIENCE"));
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] words = line.split(" ");
      X509Certificate certificate = words.length > 1 ? certificate(words[1]) : null;
      try {
        System.out.println("{\"sub\":\"" + verifier.subjectOf(words[0], certificate) + "\"}");
      } catch (Exception refused) {
        System.out.println("{\"refused\":\"" + refused.getMessage().replace('"', '\'') + "\"}");
      }
    }
  }
}
