#include "base/digest.h"

#include <openssl/evp.h>

#include "base/check.h"
#include "base/sha256.h"

namespace quire {

struct Digest::State {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context{EVP_MD_CTX_new(), &EVP_MD_CTX_free};
};

Digest::Digest(Kind kind) : kind_(kind), state_(std::make_unique<State>()) { restart(); }
Digest::~Digest() = default;

void Digest::restart() {
  const EVP_MD* algorithm = kind_ == Kind::sha256 ? EVP_sha256() : EVP_sha1();
  QR_CHECK(EVP_DigestInit_ex(state_->context.get(), algorithm, nullptr) == 1);
}

void Digest::update(std::string_view bytes) {
  QR_CHECK(EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()) == 1);
}

std::string Digest::hex() {
  uint8_t bytes[EVP_MAX_MD_SIZE];
  unsigned n = 0;
  QR_CHECK(EVP_DigestFinal_ex(state_->context.get(), bytes, &n) == 1);
  return hex_of({bytes, n});
}

}  // namespace quire
