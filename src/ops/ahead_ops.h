// What a step takes that is asked for while the one before it is computed, when the host does not know that one's
// tokens: they are picked where the logits are, and the next step's rows take their ids from there. The logits go to
// the host by themselves, which samples them as ever and waits for nothing else. A backend has these ops for work that
// it leaves to a device; HostAhead has them for one whose ops are over when they return. Thread: as Ops.
#pragma once
#include <cstdint>
#include <span>

#include "base/result.h"
#include "ops/sample.h"
#include "tensor/buffer.h"
#include "tensor/tensor.h"

namespace quire {

class Ops;

// What a step leaves for the host: logits f32 [n, n_vocab] and the n ids that were picked of them, i32.
struct StepRows {
  Tensor logits, picked;
};

class AheadOps {
 public:
  virtual ~AheadOps() = default;
  // Nanoseconds for which the host has waited for the device so far, in all ops.
  virtual int64_t waited_ns() const { return 0; }
  // picked[i] of i32 [≥ n] = the token that Ops::sample gives row i of logits f32 [n, n_vocab] by numbers[i] of i32 [n,
  // kPickNumbers] (ops/pick.h); of a row that has none some id of the vocabulary. Throws std::bad_alloc.
  virtual void pick(Tensor picked, Tensor logits, Tensor numbers) = 0;
  // out[i] = picked[from[i]], ids[i] where from[i] is −1; all but `picked` i32 [n].
  virtual void take_picked(Tensor out, Tensor ids, Tensor picked, Tensor from) = 0;
  // Memory for send(), dense.
  virtual Result<Buffer> allocate_sent(int64_t bytes) = 0;
  // to = from, in a slot: 0 or 1, in turns. `to` is dense. What is asked for behind it is of the next step, whose
  // tables may be written at once.
  virtual void send(const StepRows& to, const StepRows& from, int slot) = 0;
  // Waits for what was sent last in that slot, and not for what was asked for behind it: of operands the host reaches
  // what was sent alone. An error is as Ops::take_error's, and then everything was waited for.
  virtual Status arrived(int slot) = 0;
  // As Ops::sample, of rows that have arrived.
  virtual void sample_sent(std::span<Sampled> out, Tensor logits, std::span<const SampleParams> params) = 0;
};

class HostAhead : public AheadOps {
 public:
  explicit HostAhead(Ops& ops) : ops_(ops) {}
  void pick(Tensor picked, Tensor logits, Tensor numbers) override;
  void take_picked(Tensor out, Tensor ids, Tensor picked, Tensor from) override;
  Result<Buffer> allocate_sent(int64_t bytes) override;
  void send(const StepRows& to, const StepRows& from, int slot) override;
  Status arrived(int slot) override;
  void sample_sent(std::span<Sampled> out, Tensor logits, std::span<const SampleParams> params) override;

 private:
  Ops& ops_;
};

}  // namespace quire
