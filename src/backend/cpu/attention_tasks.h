// How the work of one attend() is cut into tasks: tiles of rows of one sequence, and where those are too few for the
// threads, as when one long sequence decodes, spans of a tile's chunks of keys. Cuts never change a bit: a span leaves
// the states of its chunks, which are merged in position order (kernels/attention.h).
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "ops/ops.h"

namespace quire {

class AttentionTasks {
 public:
  struct Tile {
    int64_t sequence;
    int64_t row_begin, row_end;
    int first_chunk, end_chunk;  // of the keys that its rows see
    int64_t states;              // offset in floats of its states, of all KV heads; below 0: not cut
  };
  // A task: a tile's chunks of keys, or some of them, of one KV head. All of a sequence's tiles at one head follow each
  // other, since they read the same keys and values.
  struct Span {
    int32_t tile, kv_head;
    int32_t first_chunk, end_chunk;
  };

  // Caller's thread; meta in host memory. The spans refer to storage that the next call reuses.
  void cut(const AttnMeta& meta, const AttnParams& params, int n_threads);

  std::span<const Tile> tiles() const { return tiles_; }
  std::span<const Span> spans() const { return spans_; }
  // States of a cut tile at a KV head, [row · head of the head group][chunk].
  float* states(const Tile& tile, const AttnParams& params, int kv_head);

 private:
  // For the tiles that there are, and as many keys again. REQUIRES tiles_.
  void make_room(const AttnParams& params, int n_threads);
  // A tile's at a KV head, of n_chunks each; one where it has no chunks.
  void add_spans(int32_t tile, int32_t kv_head, int n_chunks);

  std::vector<Tile> tiles_;
  std::vector<Span> spans_;
  std::vector<float> states_;
};

}  // namespace quire
