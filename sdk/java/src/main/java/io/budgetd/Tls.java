package io.budgetd;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.Collection;
import javax.net.ssl.KeyManager;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;

/** Settings of TLS from PEM files. */
public final class Tls {
  private static final String BEGIN = "-----BEGIN PRIVATE KEY-----"; // not a secret
  private static final String END = "-----END PRIVATE KEY-----";

  private Tls() {}

  /** Trusts the authorities of a file, and no others. */
  public static SSLContext trusting(Path ca) {
    return context(ca, null, null);
  }

  /**
   * Trusts the authorities of a file, or those of Java if ca is null, and shows the certificate of
   * a client with its key, which is in PKCS #8.
   */
  public static SSLContext context(Path ca, Path cert, Path key) {
    try {
      TrustManager[] trusted = ca == null ? null : trust(ca);
      KeyManager[] shown = cert == null ? null : show(cert, key);
      SSLContext context = SSLContext.getInstance("TLS");
      context.init(shown, trusted, null);
      return context;
    } catch (IOException | GeneralSecurityException e) {
      throw new IllegalArgumentException("TLS: " + e, e);
    }
  }

  private static TrustManager[] trust(Path ca) throws IOException, GeneralSecurityException {
    KeyStore store = empty();
    int n = 0;
    for (Certificate one : certificates(ca)) {
      store.setCertificateEntry("ca-" + n++, one);
    }
    TrustManagerFactory factory =
        TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    factory.init(store);
    return factory.getTrustManagers();
  }

  private static KeyManager[] show(Path cert, Path key)
      throws IOException, GeneralSecurityException {
    Certificate[] chain = certificates(cert).toArray(Certificate[]::new);
    KeyStore store = empty();
    String algorithm = chain[0].getPublicKey().getAlgorithm();
    store.setKeyEntry("client", privateKey(key, algorithm), new char[0], chain);
    KeyManagerFactory factory =
        KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
    factory.init(store, new char[0]);
    return factory.getKeyManagers();
  }

  private static PrivateKey privateKey(Path file, String algorithm)
      throws IOException, GeneralSecurityException {
    String text = Files.readString(file, StandardCharsets.US_ASCII);
    int from = text.indexOf(BEGIN);
    int to = text.indexOf(END);
    if (from < 0 || to < from) {
      throw new GeneralSecurityException(file + " has no private key in PKCS #8");
    }
    byte[] bytes = Base64.getMimeDecoder().decode(text.substring(from + BEGIN.length(), to));
    return KeyFactory.getInstance(algorithm).generatePrivate(new PKCS8EncodedKeySpec(bytes));
  }

  private static Collection<? extends Certificate> certificates(Path file)
      throws IOException, GeneralSecurityException {
    try (InputStream in = Files.newInputStream(file)) {
      Collection<? extends Certificate> all =
          CertificateFactory.getInstance("X.509").generateCertificates(in);
      if (all.isEmpty()) {
        throw new GeneralSecurityException(file + " has no certificate");
      }
      return all;
    }
  }

  private static KeyStore empty() throws IOException, GeneralSecurityException {
    KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
    store.load(null, null);
    return store;
  }
}
