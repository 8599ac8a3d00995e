#include "study/trace/kernel_name.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace kernel_name_test {

using study::kernel_label;

TEST(KernelLabel, IsWhatAReaderCallsAKernel) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"aten::_scaled_dot_product_flash_attention", "aten::_scaled_dot_product_flash_attention"},
      {"host to device", "host to device"},
      {"nvjet_hsh_128x128_64x4_1x2_h_bz_TNT", "nvjet_hsh_128x128_64x4_1x2_h_bz_TNT"},
      {"void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> "
       ">(int, "
       "at::native::FillFunctor<float>, std::array<char*, 1ul>)",
       "vectorized_elementwise<FillFunctor>"},
      {"void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::"
       "{lambda()#3}::operator()() const::{lambda()#7}::operator()() const::{lambda(float)#1}, std::array<char*, 2ul>, "
       "4, TrivialOffsetCalculator<1, unsigned int> >(int)",
       "unrolled_elementwise<direct_copy_kernel_cuda>"},
      {"void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::CUDAFunctor_add<"
       "float> >(at::TensorIteratorBase&, at::native::CUDAFunctor_add<float> const&)::{lambda(int)#1}>(int)",
       "elementwise<CUDAFunctor_add>"},
      {"void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, float, float, at::native::"
       "binary_internal::DivFunctor<float> >, std::array<char*, 3ul> >(int)",
       "vectorized_elementwise<DivFunctor>"},
      {"void at::native::reduce_kernel<128, 4, at::native::ReduceOp<c10::BFloat16, at::native::func_wrapper_t<c10::"
       "BFloat16, at::native::sum_functor<c10::BFloat16, float, c10::BFloat16>::operator()(at::TensorIterator&)::"
       "{lambda(float, float)#1}>, unsigned int, c10::BFloat16, 4, 8> >(int)",
       "reduce<sum_functor>"},
      {"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
       "FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4, (at::"
       "native::ADAM_MODE)1, false>, float const*, double>(float const*)",
       "multi_tensor_apply<FusedAdamMathFunctor>"},
      {"void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float, false>(int, float)",
       "vectorized_layer_norm_kernel"},
      {"void (anonymous namespace)::elementwise_kernel_with_index<int, at::native::arange_cuda_out(c10::Scalar "
       "const&)::"
       "{lambda()#1}::operator()() const::{lambda(long)#1}>(int)",
       "elementwise_kernel_with_index<arange_cuda_out>"},
      {"void "
       "cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_32x3_nn_align8>(cutlass_80_tensorop_bf16_"
       "s16816gemm_bf16_256x128_32x3_nn_align8::Params)",
       "Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_32x3_nn_align8>"},
      {"void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false>, false, "
       "true>(pytorch_flash::"
       "Flash_fwd_params)",
       "flash_fwd_kernel"},
      {"void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float, true>(cublasSplitKParams<float>)",
       "splitKreduce_kernel"},
      {"void at::native::(anonymous namespace)::distribution_elementwise_grid_stride_kernel<unsigned int, 4, void at::"
       "native::templates::cuda::random_kernel(int)::{lambda()#1}>(long)",
       "distribution_elementwise_grid_stride<random_kernel>"},
      {"void vectorized_elementwise_kernel<4>(int)", "vectorized_elementwise_kernel"},
      {"(", "("},
      {"<<<<(", "<<<<("},
  };
  for (const auto& [name, label] : cases) EXPECT_EQ(kernel_label(name), label);
}

}  // namespace kernel_name_test
