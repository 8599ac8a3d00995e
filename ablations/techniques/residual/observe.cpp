#include "ablations/techniques/observers.h"
#include "model/ops.h"

namespace ablations {

using at::Tensor;
using model::Affine, model::Ops;

void watch_residual(Ops& ops, Observations& seen) {
  seen.residual.emplace();
  const auto of_stream = [&seen](Tensor result) {
    ++(*seen.residual)[at::toString(result.scalar_type())];
    return result;
  };
  ops.embed = [of_stream, embed = ops.embed](const Tensor& tokens, const Tensor& wte, const Tensor& wpe) {
    return of_stream(embed(tokens, wte, wpe));
  };
  ops.layer_norm = [of_stream, norm = ops.layer_norm](const Tensor& x, const Tensor& weight, const Tensor& bias,
                                                      double eps) { return of_stream(norm(x, weight, bias, eps)); };
  ops.add_norm = [of_stream, add_norm = ops.add_norm](const Ops& table, const Ops::Place& place, const Tensor& x,
                                                      const Tensor& y, const Affine& norm, double eps) {
    Ops::Normed result = add_norm(table, place, x, y, norm, eps);
    if (y.defined()) of_stream(result.x);
    return result;
  };
}

}  // namespace ablations
