// A product of BF16 with sums in f32 by NVIDIA's cuBLASLt, to measure ours by: the library is opened when it is asked
// for, and what is called of it is declared here after its reference (cublasLtMatmul). It works in the context that is
// current, on its default stream, with whatever algorithm it finds best.
#pragma once
#include <dlfcn.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

namespace quire {

class LibraryGemm {
 public:
  // Code::unsupported says why there is none: no library, or one that does not know a call.
  static Result<std::unique_ptr<LibraryGemm>> open() {
    std::unique_ptr<LibraryGemm> out(new LibraryGemm);
    for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}) {
      if (out->library_ == nullptr) out->library_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    out->driver_ = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (out->library_ == nullptr) return fail(Code::unsupported, "libcublasLt is not there");
    if (out->driver_ == nullptr) return fail(Code::unsupported, "libcuda.so.1 is not there");
    const bool has_all =
        find(out->library_, "cublasLtCreate", out->create_) && find(out->library_, "cublasLtDestroy", out->destroy_) &&
        find(out->library_, "cublasLtMatmulDescCreate", out->create_product_) &&
        find(out->library_, "cublasLtMatmulDescSetAttribute", out->set_) &&
        find(out->library_, "cublasLtMatmulDescDestroy", out->destroy_product_) &&
        find(out->library_, "cublasLtMatrixLayoutCreate", out->create_layout_) &&
        find(out->library_, "cublasLtMatrixLayoutDestroy", out->destroy_layout_) &&
        find(out->library_, "cublasLtMatmul", out->multiply_) && find(out->driver_, "cuCtxSynchronize", out->wait_);
    if (!has_all) return fail(Code::unsupported, "libcublasLt or libcuda.so.1 does not know every call");
    QR_TRY_VOID(checked("cublasLtCreate", out->create_(&out->handle_)));
    return out;
  }
  ~LibraryGemm() {
    if (handle_ != nullptr) destroy_(handle_);  // libraries stay open: they keep threads
  }
  LibraryGemm(const LibraryGemm&) = delete;
  LibraryGemm& operator=(const LibraryGemm&) = delete;

  // y [n, n_out] = x [n, n_in] · w [n_out, n_in]ᵀ, all dense, w and x BF16, y f32. In the device's memory.
  struct Product {
    const void *w, *x;
    void* y;
    int64_t n, n_in, n_out;
    void* workspace;
    size_t workspace_bytes;
  };
  // Asks for it; Code::unsupported where the library refuses.
  Status multiply(const Product& p) {
    constexpr int kF32 = 0, kBf16 = 14, kComputeF32 = 68, kTransA = 3, kTransposed = 1;
    void *product = nullptr, *w = nullptr, *x = nullptr, *y = nullptr;
    Status done = checked("cublasLtMatmulDescCreate", create_product_(&product, kComputeF32, kF32));
    if (done)
      done = checked("cublasLtMatmulDescSetAttribute", set_(product, kTransA, &kTransposed, sizeof kTransposed));
    const auto layout = [&](void** out, int type, int64_t rows, int64_t columns) {  // of columns next to each other
      if (!done) return;
      done = checked("cublasLtMatrixLayoutCreate",
                     create_layout_(out, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), rows));
    };
    layout(&w, kBf16, p.n_in, p.n_out);
    layout(&x, kBf16, p.n_in, p.n);
    layout(&y, kF32, p.n_out, p.n);
    const float one = 1.0F, zero = 0.0F;
    if (done) {
      done = checked("cublasLtMatmul", multiply_(handle_, product, &one, p.w, w, p.x, x, &zero, p.y, y, p.y, y, nullptr,
                                                 p.workspace, p.workspace_bytes, nullptr));
    }
    for (void* each : {w, x, y}) {
      if (each != nullptr) destroy_layout_(each);
    }
    if (product != nullptr) destroy_product_(product);
    return done;
  }
  Status wait() { return checked("cuCtxSynchronize", wait_()); }

 private:
  LibraryGemm() = default;
  template <class Call>
  static bool find(void* library, const char* name, Call& call) {
    call = reinterpret_cast<Call>(dlsym(library, name));
    return call != nullptr;
  }
  static Status checked(const char* call, int code) {
    if (code == 0) return {};
    return fail(Code::unsupported, std::string(call) + " says " + std::to_string(code));
  }

  void *library_ = nullptr, *driver_ = nullptr, *handle_ = nullptr;
  int (*create_)(void** handle) = nullptr;
  int (*destroy_)(void* handle) = nullptr;
  int (*create_product_)(void** product, int compute, int scale_type) = nullptr;
  int (*set_)(void* product, int attribute, const void* value, size_t bytes) = nullptr;
  int (*destroy_product_)(void* product) = nullptr;
  int (*create_layout_)(void** layout, int type, uint64_t rows, uint64_t columns, int64_t stride) = nullptr;
  int (*destroy_layout_)(void* layout) = nullptr;
  int (*multiply_)(void* handle,
                   void* product,
                   const void* alpha,
                   const void* a,
                   void* a_layout,
                   const void* b,
                   void* b_layout,
                   const void* beta,
                   const void* c,
                   void* c_layout,
                   void* d,
                   void* d_layout,
                   const void* algorithm,
                   void* workspace,
                   size_t workspace_bytes,
                   void* stream) = nullptr;
  int (*wait_)() = nullptr;
};

}  // namespace quire
