// What the operating system lets this process run on, and the naming and pinning of threads. Any thread.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

// Names the calling thread for top, gdb and perf; cut to the kernel's 15 bytes.
void set_thread_name(std::string_view name);
// The calling thread's name.
std::string thread_name();

// From now on threads of this process go before the calling one where a processor is wanted by both: its nice value is
// `more` above what it was, 19 at most; 5 is a third of the weight. Without effect where the system refuses.
void step_behind_others(int more);

// CPUs in the calling thread's affinity mask, ascending; never empty. Threads inherit the mask, so before any pinning
// it is the process's. Read at each call: cpusets change.
std::vector<int> allowed_cpus();
// CPUs' worth of time that the cgroup (v2 cpu.max, v1 cfs quota) grants, the tightest of it and its parents;
// 0 when there is no limit.
double cgroup_cpu_quota();
// How many threads can run at once: the allowed CPUs, cut to the quota rounded up; at least 1.
int n_usable_cpus();

// CPUs in the order in which threads should take them: the first of every physical core, then the second of those that
// have one, and so on; within a round as given.
struct CpuOrder {
  std::vector<int> cpus;
  int n_cores = 0;  // how many of them come first
};
// Of `cpus` by the files <topology>/cpu<N>/topology/thread_siblings_list; a CPU without such a file is a core of its
// own.
CpuOrder order_by_core(const std::vector<int>& cpus, const std::string& topology = "/sys/devices/system/cpu");
// The memory node next to a CPU: K of <topology>/cpu<N>/node<K>; 0 where the system names none.
int node_of(int cpu, const std::string& topology = "/sys/devices/system/cpu");
// The allowed CPUs that n_threads should sit on, one each, by order_by_core; empty where there are fewer CPUs' worth
// of time than threads.
std::vector<int> cpus_for(int n_threads);
// How many threads that compute all the time are worth having: physical cores with an allowed CPU, cut to the quota
// rounded up; at least 1. (Two threads of one core share its multipliers and its way to memory.)
int n_usable_cores();

// Pins the calling thread to one CPU of allowed_cpus(). Otherwise fails (Code::invalid) and leaves it where it was.
Status pin_thread(int cpu);

}  // namespace quire
