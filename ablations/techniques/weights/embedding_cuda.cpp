// The embedding and its gradients by the kernels of embedding.cu. The gradients of a token's rows are added in an order
// that depends on nothing but the tokens.
#include "ablations/techniques/cuda/call.h"
#include "ablations/techniques/weights/embedding.h"
#include "ablations/techniques/weights/embedding_gradient.h"

namespace model {

using at::Tensor;

decltype(Ops::embed) cuda_embedding(at::ScalarType stream) {
  return [stream](const Tensor& tokens, const Tensor& wte, const Tensor& wpe) {
    const int64_t T = tokens.size(1), C = wte.size(1);
    const Tensor all = tokens.contiguous(), x = at::empty({tokens.size(0), T, C}, wpe.options().dtype(stream));
    with_type(wte.scalar_type(), [&]<class W>() {
      with_type(stream, [&]<class S>() {
        kernels::embedding_forward<W, S>({.tokens = pointer<const int64_t>(all),
                                          .wte = pointer<const W>(wte),
                                          .wpe = pointer<const float>(wpe),
                                          .x = pointer<S>(x),
                                          .N = all.numel(),
                                          .context = T,
                                          .C = C,
                                          .V = wte.size(0)},
                                         stream_for(x));
      });
    });
    return x;
  };
}

void cuda_embedding_gradient(Gradients& gradients, const Tensor& dx, const Tensor& tokens, const Tensor& wte,
                             const Tensor& wpe) {
  const int64_t T = dx.size(1), C = dx.size(2), N = tokens.numel();
  // Of 32 bits: a sort goes through 8 bits at a time.
  const auto [sorted, order] =
      at::sort(tokens.flatten().to(at::kInt), /*stable=*/true, /*dim=*/0, /*descending=*/false);
  const Gradients::Place d_wte = gradients.place_of(wte), d_wpe = gradients.place_of(wpe);
  if (!d_wte.accumulate) d_wte.buffer.zero_();
  const Tensor workspace = at::empty({kernels::embedding_backward_workspace(N, C)}, dx.options().dtype(at::kFloat));
  const auto* sorted_tokens = pointer<const int32_t>(sorted);
  const auto* rows = pointer<const int64_t>(order);
  with_type(dx.scalar_type(), [&]<class S>() {
    kernels::embedding_backward<S>({.upstream = pointer<const S>(dx),
                                    .sorted_tokens = sorted_tokens,
                                    .order = rows,
                                    .wte_gradient = pointer<float>(d_wte.buffer),
                                    .wpe_gradient = pointer<float>(d_wpe.buffer),
                                    .accumulate_wpe = d_wpe.accumulate,
                                    .workspace = pointer<float>(workspace),
                                    .N = N,
                                    .context = T,
                                    .C = C,
                                    .V = wte.size(0),
                                    .P = wpe.size(0)},
                                   stream_for(dx));
  });
}

}  // namespace model
