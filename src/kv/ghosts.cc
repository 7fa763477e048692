#include "kv/ghosts.h"

#include <algorithm>
#include <bit>

namespace quire {

Ghosts::Ghosts(int64_t n) {
  const auto wanted = static_cast<size_t>(std::max<int64_t>(n, 1));
  ghosts_.resize(kSet * std::bit_ceil((wanted + kSet - 1) / kSet));
}

std::span<Ghosts::Ghost> Ghosts::set_of(const Hash128& name) {
  const size_t n_sets = ghosts_.size() / kSet;
  return std::span(ghosts_).subspan(name.lo % n_sets * kSet, kSet);
}

void Ghosts::put(const Hash128& name, uint8_t what) {
  Ghost* place = nullptr;
  for (Ghost& ghost : set_of(name)) {
    if (ghost.left > 0 && ghost.name == name) {
      place = &ghost;
      break;
    }
    if (place == nullptr || ghost.left < place->left) place = &ghost;
  }
  *place = {name, ++n_put_, what};
}

uint8_t Ghosts::take(const Hash128& name, uint8_t otherwise) {
  for (Ghost& ghost : set_of(name)) {
    if (ghost.left == 0 || ghost.name != name) continue;
    const uint8_t what = ghost.what;
    ghost = {};
    return what;
  }
  return otherwise;
}

}  // namespace quire
