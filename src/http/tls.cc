#include "http/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <array>
#include <cstring>

#include "http/tls_bytes.h"

namespace quire {
namespace {

// The first reason in OpenSSL's queue, which is emptied.
std::string reason() {
  const unsigned long code = ERR_get_error();
  const char* text = ERR_SYSTEM_ERROR(code) ? std::strerror(ERR_GET_REASON(code)) : ERR_reason_error_string(code);
  std::string out = text != nullptr ? text : "unknown reason";
  ERR_clear_error();
  return out;
}

// A key that needs a passphrase is refused instead of asking the terminal for it.
int no_passphrase(char*, int, int, void*) { return 0; }

constexpr unsigned char kHttp11[] = "\x08http/1.1";

void offer_http11(SSL_CTX* context) {
  const auto choose = [](SSL*, const unsigned char** out, unsigned char* out_bytes, const unsigned char* in,
                         unsigned in_bytes, void*) {
    unsigned char* chosen = nullptr;
    const int made = SSL_select_next_proto(&chosen, out_bytes, kHttp11, sizeof kHttp11 - 1, in, in_bytes);
    if (made != OPENSSL_NPN_NEGOTIATED) return SSL_TLSEXT_ERR_NOACK;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
  };
  SSL_CTX_set_alpn_select_cb(context, choose, nullptr);
}

Status show(SSL_CTX* c, const TlsFiles& own) {
  SSL_CTX_set_default_passwd_cb(c, &no_passphrase);
  ERR_clear_error();
  if (SSL_CTX_use_certificate_chain_file(c, own.certificate.c_str()) != 1)
    return fail(Code::io, "cannot read the TLS certificate " + own.certificate + ": " + reason());
  if (SSL_CTX_use_PrivateKey_file(c, own.key.c_str(), SSL_FILETYPE_PEM) != 1)
    return fail(Code::io, "cannot read the TLS key " + own.key + ": " + reason());
  if (SSL_CTX_check_private_key(c) != 1)
    return fail(Code::invalid, "the TLS key " + own.key + " is not that of the certificate " + own.certificate);
  return {};
}

}  // namespace

void FreeTlsContext::operator()(ssl_ctx_st* context) const { SSL_CTX_free(context); }
void TlsSession::Free::operator()(ssl_st* ssl) const { SSL_free(ssl); }

Result<std::shared_ptr<const TlsContext>> TlsContext::load(const std::string& certificate, const std::string& key) {
  auto out = std::make_shared<TlsContext>();
  out->context_.reset(SSL_CTX_new(TLS_server_method()));
  SSL_CTX* const c = out->context_.get();
  if (c == nullptr) return fail(Code::internal, "TLS cannot be set up: " + reason());
  SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION);
  SSL_CTX_set_options(c, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_mode(c, SSL_MODE_RELEASE_BUFFERS);  // an idle connection holds none
  SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
  offer_http11(c);
  QR_TRY_VOID(show(c, {certificate, key}));
  return out;
}

Result<std::shared_ptr<const TlsTrust>> TlsTrust::load(const std::string& file, const TlsFiles& own) {
  auto out = std::make_shared<TlsTrust>();
  out->context_.reset(SSL_CTX_new(TLS_client_method()));
  SSL_CTX* const c = out->context_.get();
  if (c == nullptr) return fail(Code::internal, "TLS cannot be set up: " + reason());
  SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION);
  SSL_CTX_set_options(c, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(c, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_verify(c, SSL_VERIFY_PEER, nullptr);
  if (!own.certificate.empty()) QR_TRY_VOID(show(c, own));
  ERR_clear_error();
  if (file.empty()) {
    if (SSL_CTX_set_default_verify_paths(c) != 1)
      return fail(Code::io, "cannot read this machine's certificates: " + reason());
    return out;
  }
  X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(c), X509_V_FLAG_PARTIAL_CHAIN);
  if (SSL_CTX_load_verify_file(c, file.c_str()) != 1)
    return fail(Code::io, "cannot read the certificates in " + file + ": " + reason());
  return out;
}

std::unique_ptr<TlsSession> TlsSession::over_memory(ssl_ctx_st* context) {
  std::unique_ptr<ssl_st, Free> ssl(SSL_new(context));
  BIO* const in = ssl != nullptr ? BIO_new(BIO_s_mem()) : nullptr;
  BIO* const out = in != nullptr ? BIO_new(BIO_s_mem()) : nullptr;
  if (out == nullptr) {
    BIO_free(in);
    ERR_clear_error();
    return nullptr;
  }
  SSL_set_bio(ssl.get(), in, out);  // which owns both from here on
  std::unique_ptr<TlsSession> session(new TlsSession(ssl.get()));
  static_cast<void>(ssl.release());
  return session;
}

std::unique_ptr<TlsSession> TlsSession::open(const TlsContext& context) {
  auto session = over_memory(context.get());
  if (session != nullptr) SSL_set_accept_state(session->ssl_.get());
  return session;
}

// Names are looked for where they belong, in the certificate's alternative names; its subject is not one.
std::unique_ptr<TlsSession> TlsSession::open(const TlsTrust& trust, const std::string& name, bool http) {
  auto session = over_memory(trust.get());
  if (session == nullptr) return nullptr;
  SSL* const ssl = session->ssl_.get();
  SSL_set_connect_state(ssl);
  if (http) SSL_set_alpn_protos(ssl, kHttp11, sizeof kHttp11 - 1);
  SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  const bool is_address = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name.c_str()) == 1;
  ERR_clear_error();
  const bool named = is_address || (SSL_set1_host(ssl, name.c_str()) == 1 &&
                                    SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                                             const_cast<char*>(name.c_str())) == 1);
  ERR_clear_error();
  return named ? std::move(session) : nullptr;
}

bool TlsSession::greet(std::string& wire) {
  ERR_clear_error();
  const int made = SSL_do_handshake(ssl_.get());
  const bool waits = made == 1 || SSL_get_error(ssl_.get(), made) == SSL_ERROR_WANT_READ;
  if (!waits) fault_ = reason();
  drain(wire);
  return waits;
}

void TlsSession::drain(std::string& wire) {
  BIO* const out = SSL_get_wbio(ssl_.get());
  const size_t n = BIO_ctrl_pending(out), at = wire.size();
  if (n == 0) return;
  wire.resize(at + n);
  size_t got = 0;
  BIO_read_ex(out, wire.data() + at, n, &got);
  wire.resize(at + got);
}

TlsSession::State TlsSession::receive(std::string_view bytes, std::string& plain, std::string& wire) {
  size_t taken = 0;
  if (BIO_write_ex(SSL_get_rbio(ssl_.get()), bytes.data(), bytes.size(), &taken) != 1) return State::failed;
  std::array<char, kTlsRecordBytes> record;
  size_t n = 0;
  ERR_clear_error();
  while (SSL_read_ex(ssl_.get(), record.data(), record.size(), &n) == 1) plain.append(record.data(), n);
  const int error = SSL_get_error(ssl_.get(), 0);
  if (error == SSL_ERROR_SSL) fault_ = reason();
  ERR_clear_error();
  drain(wire);
  if (error == SSL_ERROR_WANT_READ) return State::open;
  return error == SSL_ERROR_ZERO_RETURN ? State::closed : State::failed;
}

// Into memory: all or, on a broken session, nothing.
bool TlsSession::send(std::string_view plain, std::string& wire) {
  size_t n = 0;
  ERR_clear_error();
  const bool written = SSL_write_ex(ssl_.get(), plain.data(), plain.size(), &n) == 1 && n == plain.size();
  ERR_clear_error();
  drain(wire);
  return written;
}

void TlsSession::close(std::string& wire) {
  if (!ready()) return;
  SSL_shutdown(ssl_.get());
  ERR_clear_error();
  drain(wire);
}

std::string TlsSession::refusal() const {
  const long verified = SSL_get_verify_result(ssl_.get());
  if (verified == X509_V_OK) return fault_;
  return std::string("its certificate is refused: ") + X509_verify_cert_error_string(verified);
}

bool TlsSession::ready() const { return SSL_is_init_finished(ssl_.get()) == 1; }

}  // namespace quire
