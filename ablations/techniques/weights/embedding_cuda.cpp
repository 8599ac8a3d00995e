// The gradient of an embedding by a kernel (embedding.cu). The rows of the tokens are added in an order that depends on
// nothing but the tokens.
#include "ablations/techniques/cuda/call.h"
#include "ablations/techniques/weights/embedding.h"
#include "ablations/techniques/weights/embedding_gradient.h"

namespace model {

using at::Tensor;

void cuda_embedding_gradient(Gradients& gradients, const Tensor& dx, const Tensor& tokens, const Tensor& wte,
                             const Tensor& wpe) {
  const int64_t T = dx.size(1), C = dx.size(2), N = tokens.numel();
  const auto [sorted, order] = at::sort(tokens.flatten(), /*stable=*/true, /*dim=*/0, /*descending=*/false);
  const Gradients::Place d_wte = gradients.place_of(wte), d_wpe = gradients.place_of(wpe);
  if (!d_wte.accumulate) d_wte.buffer.zero_();
  const Tensor workspace = at::empty({kernels::embedding_backward_workspace(N, C)}, dx.options().dtype(at::kFloat));
  const auto* sorted_tokens = pointer<const int64_t>(sorted);
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
