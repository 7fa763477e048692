// Who asks, as far as a server can know. Plain values.
#pragma once
#include <cstdint>
#include <string>

namespace quire {

// Without keys a key that a client names is no proof of anything: it separates what clients may find again and share,
// but on whose share something counts follows from the address.
struct Asker {
  uint64_t owner = 0;        // who may have again what is kept: of equal keys the same
  uint64_t tenant = 0;       // on whose share it counts: a key's, or where none is asked for an address's
  std::string origin{};      // of the page that asks, as its browser says; empty: none, or the server's own
  bool asks_secret = false;  // owner is no proof: a stream is taken up with its secret only
};

}  // namespace quire
