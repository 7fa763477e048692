// What --draft names, found out once, and how it is loaded beside the model that it guesses for.
#pragma once
#include "app/wire.h"

namespace quire {

// A model; a folder of heads; the head that the target's file carries; its first layers.
enum class DraftKind { none, model, medusa, eagle, mtp, exit };

struct DraftSource {
  DraftKind kind = DraftKind::none;
  ModelOptions how = {};            // with the file or folder; none of those of the target's own file
  std::string target_weights = {};  // --weights, as the target is loaded with
  std::string vocabulary = {};      // --draft-vocab (draft_vocabulary.h)
  bool gives_way = false;  // --spec auto and nobody named: no guesses where layers keep a state (drop_if_costly)
  // Whether it has weights beside the target's, and maybe a cache.
  bool is_beside() const { return kind != DraftKind::none && kind != DraftKind::exit; }
};

}  // namespace quire
