// What --draft names, found out once, and how it is loaded beside the model that it guesses for.
#pragma once
#include "app/wire.h"

namespace quire {

// A model; a folder of heads; the first layers of the target, which have no file.
enum class DraftKind { none, model, medusa, eagle, exit };

struct DraftSource {
  DraftKind kind = DraftKind::none;
  ModelOptions how = {};  // with the file or folder; none of `none` and `exit`
  bool has_file() const { return !how.model.empty(); }
};

}  // namespace quire
