"""Attention of one sequence under any encodings: dense, and in linear memory blockwise and fused.

    bound      the composed encodings of a layer, with their parameters
    rows       indices, positions and coordinates of tokens; the mask
    relative   terms of the distance: tables at consecutive positions, else pair by pair
    dense      all queries and keys at once
    blockwise  by blocks, with an online softmax
    fused      in kernels of a TPU or GPU, for most encodings
    pointwise  hooks of pairs inside these kernels
    choose     dense, blockwise or fused, by hooks, size and device

For query i and key j, with hooks of the contract (encoding.py) in `...` and the difference of the
two positions as i - j:

    q'       = q K^-1/2 scale                `scale`
    q'', k'' = qk(q', k)                     `qk`
    s_ij     = q''_i . k''_j                 the dot product; where `far`, of the queries and keys
                                             that `qk` gives at `far_positions`
             + q'_i . r_{i-j}                `relative_keys` gives r
             + r'_{i-j} . k_j                `relative_queries` gives r'
             + b_{i-j}                       `relative_bias`
             + bias_ij                       `bias`
    s        = hide(logits(hide(s), q', k))  `logits`: each hook in turn, hidden again after each
    w_ij     = normalize(s)_ij               `normalize`: the softmax, or what replaces it; `sink`
                                             is the logit of one more key, whose value is 0
             * gate_ij c_{i-j}               `gate`; `relative_gate` gives c
    o_i      = sum_j w_ij (v_j + r^V_{i-j})  `relative_values` gives r^V

A layer in which an encoding has `mix` has none of this.

All terms but the dot product read queries and keys before `qk`: with rotated ones, the terms of
the distance would depend on absolute positions. `hide` puts HIDDEN where a query does not see a key
(`rows.visible`); the weights of hidden keys are set to 0 after `normalize`. Logits, weights and
sums are float32.
"""
