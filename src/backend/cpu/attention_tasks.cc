#include "backend/cpu/attention_tasks.h"

#include <algorithm>

#include "backend/cpu/kernels/tables.h"
#include "ops/seen_keys.h"

namespace quire {

namespace {

// Rows of one sequence that a task takes: enough to share loaded keys, few enough to spread a prompt over threads.
constexpr int64_t kRowsPerTask = 8;
constexpr int64_t kTasksPerThread = 4;  // enough that a late thread holds up the others by a quarter at most
constexpr int kMinChunks = 2;           // of a span: below, a task is no longer than its fork
constexpr int kLeastRoom = 64;          // chunks of a row that there is room for from the beginning: 16,384 keys

// Chunks, and before them the keys that are kept beside the window.
int n_states(const AttentionTasks::Tile& tile, const AttnParams& params) {
  return tile.end_chunk - tile.first_chunk + (params.n_kept > 0 ? 1 : 0);
}

int64_t states_floats(const AttentionTasks::Tile& tile, const AttnParams& params) {
  const int64_t pairs = (tile.row_end - tile.row_begin) * (params.n_heads / params.n_kv_heads);
  return pairs * n_states(tile, params) * attention_state_floats(params.v_dim);
}

}  // namespace

void AttentionTasks::cut(const AttnMeta& meta, const AttnParams& params, int n_threads) {
  tiles_.clear();
  spans_.clear();
  const auto* cu_q = meta.cu_q.ptr<int32_t>();
  const auto* first_key = meta.first_key.ptr<int32_t>();
  const auto* end_key = meta.end_key.ptr<int32_t>();
  for (int64_t s = 0; s < meta.cu_q.dim(0) - 1; ++s) {
    for (int64_t row = cu_q[s]; row < cu_q[s + 1]; row += kRowsPerTask) {
      const int64_t row_end = std::min<int64_t>(cu_q[s + 1], row + kRowsPerTask);
      int begin = INT32_MAX;
      int end = 0;
      for (int64_t r = row; r < row_end; ++r) {
        begin = std::min(begin, seen_keys(first_key[r], end_key[r], params.window, params.n_kept).first);
        end = std::max(end, end_key[r]);
      }
      const int end_chunk = (end + kAttentionChunk - 1) / kAttentionChunk;
      tiles_.push_back({s, row, row_end, std::min(begin / kAttentionChunk, end_chunk), end_chunk, -1});
    }
  }
  const int64_t n_tasks = std::max<int64_t>(1, static_cast<int64_t>(tiles_.size()) * params.n_kv_heads);
  if (n_threads > 1) make_room(params, n_threads);
  const int64_t pieces = n_threads == 1 ? 1 : (kTasksPerThread * n_threads + n_tasks - 1) / n_tasks;
  const auto span_chunks = [pieces](const Tile& tile) {
    const int n_chunks = tile.end_chunk - tile.first_chunk;
    return std::min(n_chunks, std::max(kMinChunks, static_cast<int>((n_chunks + pieces - 1) / pieces)));
  };
  int64_t n_floats = 0;
  for (Tile& tile : tiles_) {
    if (span_chunks(tile) == tile.end_chunk - tile.first_chunk) continue;
    tile.states = n_floats;
    n_floats += states_floats(tile, params) * params.n_kv_heads;
  }
  states_.resize(static_cast<size_t>(n_floats));
  for (size_t begin = 0, end = 0; begin < tiles_.size(); begin = end) {
    while (end < tiles_.size() && tiles_[end].sequence == tiles_[begin].sequence) ++end;
    for (int head = 0; head < params.n_kv_heads; ++head) {
      for (size_t t = begin; t < end; ++t) add_spans(static_cast<int32_t>(t), head, span_chunks(tiles_[t]));
    }
  }
}

void AttentionTasks::add_spans(int32_t tile, int32_t kv_head, int n_chunks) {
  const Tile& whole = tiles_[static_cast<size_t>(tile)];
  int chunk = whole.first_chunk;
  do {
    const int next = std::min(chunk + n_chunks, whole.end_chunk);
    spans_.push_back({tile, kv_head, chunk, next});
    chunk = next;
  } while (chunk < whole.end_chunk);
}

// Tiles are cut only while they and the KV heads make fewer tasks than threads want, so what their states take at most
// does not depend on how many there are. Grown ahead and by doubling: a sequence that crosses from chunk to chunk takes
// no memory, but for the few times in an engine's life that one is twice as long as any before.
void AttentionTasks::make_room(const AttnParams& params, int n_threads) {
  int64_t rows = 0;
  int n_chunks = 0;
  for (const Tile& tile : tiles_) {
    rows = std::max(rows, tile.row_end - tile.row_begin);
    n_chunks = std::max(n_chunks, n_states(tile, params));
  }
  const int64_t n_tasks = kTasksPerThread * n_threads;
  spans_.reserve(tiles_.size() * static_cast<size_t>(params.n_kv_heads) + static_cast<size_t>(n_tasks));
  const int64_t chunk_floats =
      n_tasks * rows * (params.n_heads / params.n_kv_heads) * attention_state_floats(params.v_dim);
  if (static_cast<int64_t>(states_.capacity()) >= chunk_floats * n_chunks) return;
  states_.reserve(static_cast<size_t>(chunk_floats * std::max(2 * n_chunks, kLeastRoom)));
}

float* AttentionTasks::states(const Tile& tile, const AttnParams& params, int kv_head) {
  return tile.states < 0 ? nullptr : states_.data() + tile.states + states_floats(tile, params) * kv_head;
}

}  // namespace quire
