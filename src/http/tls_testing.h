// For this room's tests only: a certificate of the moment, and a client that speaks TLS and believes everybody.
#pragma once
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "http/testing.h"

namespace quire {

// Files in the folder for temporary ones, removed at the end.
struct TestCertificate {
  TestCertificate() {
    const std::string base = std::filesystem::temp_directory_path() / ("quire_http_test_" + std::to_string(::getpid()));
    certificate = base + ".crt";
    key = base + ".key";
    const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> pair(EVP_EC_gen("P-256"), &EVP_PKEY_free);
    const std::unique_ptr<X509, void (*)(X509*)> cert(X509_new(), &X509_free);
    ASN1_INTEGER_set(X509_get_serialNumber(cert.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert.get()), -60);
    X509_gmtime_adj(X509_getm_notAfter(cert.get()), 3600);
    X509_set_pubkey(cert.get(), pair.get());
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
