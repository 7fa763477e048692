#include "app/doctor.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

DoctorFacts healthy() {
  DoctorFacts out;
  out.isas = {"scalar", "avx2", "avx512"};
  out.n_cpus = out.n_allowed = 8;
  out.n_cores = out.n_threads = 4;
  out.governor = "performance";
  out.huge_pages = "madvise";
  out.available = int64_t{8} << 30;
  out.total = int64_t{16} << 30;
  out.open_files = 65536;
  return out;
}

const Finding& about(const std::vector<Finding>& findings, const std::string& subject) {
  for (const Finding& f : findings) {
    if (f.subject == subject) return f;
  }
  ADD_FAILURE() << subject;
  return findings.front();
}

TEST(Doctor, AHealthyMachineGetsNoHints) {
  for (const Finding& f : diagnose(healthy(), {})) {
    EXPECT_EQ(f.severity, Severity::ok) << f.subject;
    EXPECT_EQ(f.hint, "") << f.subject;
  }
}

TEST(Doctor, EverythingInTheWayIsNamedWithAHint) {
  DoctorFacts m = healthy();
  m.isas = {"scalar"};
  m.cpu_quota = 1.5;
  m.governor = "powersave";
  m.huge_pages = "never";
  m.swap_total = 100;
  m.swap_used = 50;
  m.open_files = 1024;
  m.load = 8;
  ModelFacts model;
  model.needs = int64_t{9} << 30;
  const std::vector<Finding> findings = diagnose(m, model);
  for (const Finding& f : findings) {
    EXPECT_NE(f.severity, Severity::ok) << f.subject;
    EXPECT_NE(f.hint, "") << f.subject;
  }
  EXPECT_EQ(about(findings, "instruction set").severity, Severity::problem);
  EXPECT_EQ(about(findings, "memory").severity, Severity::problem);
  EXPECT_EQ(about(findings, "memory").says, "8.00 GiB of 16.00 GiB available, the model needs 9.00 GiB");
  EXPECT_EQ(about(findings, "threads").says, "4 threads on 4 cores, 8 of 8 CPUs, quota 1.5 CPUs");
  EXPECT_EQ(about(findings, "threads").hint,
            "the cgroup stops threads in the middle of a step: use --threads 1 or raise cpu.max");
}

TEST(Doctor, MoreThreadsThanCoresAreNamed) {
  DoctorFacts m = healthy();
  m.n_threads = 8;
  const std::vector<Finding> findings = diagnose(m, {});
  EXPECT_EQ(about(findings, "threads").severity, Severity::hint);
  EXPECT_EQ(about(findings, "threads").says, "8 threads on 4 cores, 8 of 8 CPUs");
}

TEST(Doctor, MemoryNodesAreNamedWhereThereAreSeveral) {
  DoctorFacts m = healthy();
  m.n_nodes = 2;
  EXPECT_EQ(about(diagnose(m, {}), "threads").says, "4 threads on 4 cores, 8 of 8 CPUs, 2 memory nodes");
}

TEST(Doctor, TheCeilingIsBandwidthForDecodingAndOperationsForPrompts) {
  DoctorFacts m = healthy();
  m.read_bytes_s = 50e9;
  m.peak = {.int8 = 1e12, .f32 = 1e11, .bf16 = 2e11};
  ModelFacts model;
  model.step.weight_bytes = 1e9;
  model.step.row_ops = 1e9;
  EXPECT_DOUBLE_EQ(ceiling(m, model).decode, 50);
  EXPECT_DOUBLE_EQ(ceiling(m, model).prefill, 1000);
  model.step.head_ops = 512e9;  // of the prompt's last row, as much as all of its rows without it
  EXPECT_DOUBLE_EQ(ceiling(m, model).prefill, 500);
  model.step.floats = true;
  EXPECT_DOUBLE_EQ(ceiling(m, model).prefill, 50);
  model.step.bf16 = true;
  EXPECT_DOUBLE_EQ(ceiling(m, model).prefill, 100);
  EXPECT_EQ(ceiling(m, {}).decode, 0);
}

TEST(Doctor, LooksAtThisMachine) {
  const DoctorFacts m = gather_facts();
  EXPECT_FALSE(m.isas.empty());
  EXPECT_GE(m.n_cpus, 1);
  EXPECT_GE(m.n_allowed, 1);
  EXPECT_GE(m.n_cores, m.n_threads);
  EXPECT_GE(m.n_nodes, 1);
  EXPECT_LE(m.n_nodes, m.n_allowed);
  EXPECT_GT(m.total, 0);
  EXPECT_LE(m.available, m.total);
  EXPECT_GT(m.open_files, 0);
}

}  // namespace
}  // namespace quire
