// A digest of bytes that come piece by piece. OpenSSL's, which stays behind this header. One thread at a time.
#pragma once
#include <memory>
#include <string>
#include <string_view>

namespace quire {

class Digest {
 public:
  enum class Kind { sha256, sha1 };  // SHA-1 only because git names contents by it: no protection against an attacker

  explicit Digest(Kind kind);
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;

  void update(std::string_view bytes);
  // Lower-case hexadecimal of all bytes since construction or restart(). Afterwards only restart() may follow.
  std::string hex();
  void restart();

 private:
  const Kind kind_;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace quire
