// For tests only: a certificate of the moment, and a client that speaks TLS and believes everybody.
#pragma once
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "http/testing.h"

namespace quire {

// Files in the folder for temporary ones, removed at the end.
struct TestCertificate {
  // `address`: whose it is; empty: nobody's. `tag` sets several of one process apart.
  explicit TestCertificate(const std::string& address = "", const std::string& tag = "") {
    const std::string base =
        std::filesystem::temp_directory_path() / ("quire_http_test_" + std::to_string(::getpid()) + tag);
    certificate = base + ".crt";
    key = base + ".key";
    const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> pair(EVP_EC_gen("P-256"), &EVP_PKEY_free);
    const std::unique_ptr<X509, void (*)(X509*)> cert(X509_new(), &X509_free);
    ASN1_INTEGER_set(X509_get_serialNumber(cert.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert.get()), -60);
    X509_gmtime_adj(X509_getm_notAfter(cert.get()), 3600);
    X509_set_pubkey(cert.get(), pair.get());
    const std::unique_ptr<X509_NAME, void (*)(X509_NAME*)> name(X509_NAME_new(), &X509_NAME_free);
    const std::string own = "quire test " + tag;
    X509_NAME_add_entry_by_txt(name.get(), "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(own.c_str()), -1,
                               -1, 0);
    X509_set_subject_name(cert.get(), name.get());
    X509_set_issuer_name(cert.get(), name.get());
    if (!address.empty()) {
      X509_set_version(cert.get(), X509_VERSION_3);
      const std::unique_ptr<X509_EXTENSION, void (*)(X509_EXTENSION*)> names(
          X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, ("IP:" + address).c_str()), &X509_EXTENSION_free);
      X509_add_ext(cert.get(), names.get(), -1);
    }
    X509_sign(cert.get(), pair.get(), EVP_sha256());
    const std::unique_ptr<FILE, int (*)(FILE*)> to_cert(std::fopen(certificate.c_str(), "w"), &std::fclose);
    const std::unique_ptr<FILE, int (*)(FILE*)> to_key(std::fopen(key.c_str(), "w"), &std::fclose);
    made = to_cert && to_key && PEM_write_X509(to_cert.get(), cert.get()) == 1 &&
           PEM_write_PrivateKey(to_key.get(), pair.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1;
  }
  TestCertificate(const TestCertificate&) = delete;
  TestCertificate& operator=(const TestCertificate&) = delete;
  ~TestCertificate() {
    std::remove(certificate.c_str());
    std::remove(key.c_str());
  }
  std::string certificate, key;
  bool made = false;
};

// TLS in memory on a socket of its own, so that a test says which bytes leave, and when.
class TlsClient {
 public:
  explicit TlsClient(int port, int buffer_bytes = 0, int version = TLS1_3_VERSION)
      : socket(port, buffer_bytes), context_(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free) {
    SSL_CTX_set_max_proto_version(context_.get(), version);
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_bio(ssl_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(ssl_.get());
    if (buffer_bytes > 0) setsockopt(socket.fd(), SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes);
  }
  SSL* ssl() { return ssl_.get(); }
  // What TLS has to say now.
  std::string spoken() {
    BIO* const out = SSL_get_wbio(ssl_.get());
    std::string bytes(BIO_ctrl_pending(out), '\0');
    if (!bytes.empty()) BIO_read(out, bytes.data(), static_cast<int>(bytes.size()));
    return bytes;
  }
  std::string hello() {
    SSL_do_handshake(ssl_.get());
    return spoken();
  }
  // False: it did not come about.
  bool handshake() {
    while (SSL_do_handshake(ssl_.get()) != 1) {
      socket.send(spoken());
      const std::string part = socket.read_some();
      if (part.empty()) return false;
      BIO_write(SSL_get_rbio(ssl_.get()), part.data(), static_cast<int>(part.size()));
      if (SSL_get_state(ssl_.get()) == TLS_ST_OK) break;
    }
    return socket.send(spoken());
  }

  // Says it, encrypted, once the handshake is done.
  bool say(std::string_view bytes) {
    SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()));
    return socket.send(spoken());
  }
  // What is said until `marker` has come, or the end.
  std::string hear(std::string_view marker) {
    std::string out;
    char part[4096];
    while (out.find(marker) == std::string::npos) {
      const int n = SSL_read(ssl_.get(), part, sizeof part);
      if (n > 0) {
        out.append(part, static_cast<size_t>(n));
        continue;
      }
      const std::string more = socket.read_some();
      if (more.empty()) break;
      BIO_write(SSL_get_rbio(ssl_.get()), more.data(), static_cast<int>(more.size()));
    }
    return out;
  }

  RawClient socket;

 private:
  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context_;
  std::unique_ptr<SSL, void (*)(SSL*)> ssl_{nullptr, &SSL_free};
};

// Sends over TLS and returns what came, until the first answer's last byte '.', the end, or an error.
inline std::string tls_exchange(int port, const std::string& bytes) {
  static const auto ignored = std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to what is closed
  static_cast<void>(ignored);
  RawClient socket(port);
  const timeval patience{kPatienceMs / 1000, 0};
  setsockopt(socket.fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free);
  const std::unique_ptr<SSL, void (*)(SSL*)> ssl(SSL_new(context.get()), &SSL_free);
  SSL_set_fd(ssl.get(), socket.fd());
  std::string all;
  if (SSL_connect(ssl.get()) != 1) return all;
  if (SSL_write(ssl.get(), bytes.data(), static_cast<int>(bytes.size())) <= 0) return all;
  char part[4096];
  while (!all.ends_with("\r\n\r\n.") && !all.ends_with("b.")) {
    const int n = SSL_read(ssl.get(), part, sizeof part);
    if (n <= 0) break;
    all.append(part, static_cast<size_t>(n));
  }
  return all;
}

}  // namespace quire
