"""Attention of one sequence under any encodings: dense, and in linear memory blockwise and fused.

    bound      the encodings of a layer, with their parameters, taken as one
    rows       what is known of each token, query and key; and the mask
    relative   the terms of the distance alone: from tables where positions are consecutive, else
               pair by pair
    dense      attention over all queries and keys at once
    blockwise  attention by blocks, with an online softmax; which key blocks a query block visits
    fused      the same in one kernel of a TPU or GPU, for the encodings that it serves
    pointwise  hooks of pairs inside that kernel
    choose     dense, blockwise or fused, by hooks, size and device

All compute the following for query i and key j. A name in `...` is a hook of the contract
(encoding.py); a subscript i - j is the difference of the two positions.

    q'       = q K^-1/2 scale                `scale`
    q'', k'' = qk(q', k)                     `qk`
    s_ij     = q''_i . k''_j                 the dot product; where `far`, of the queries and keys
                                             that `qk` gives at `far_positions`
             + q'_i . r_{i-j}                `relative_keys` gives r
             + r'_{i-j} . k_j                `relative_queries` gives r'
             + b_{i-j}                       `relative_bias`
             + bias_ij                       `bias`
    s        = hide(logits(hide(s), q', k))  `logits`: each hook in turn, hidden again after each
    w_ij     = normalize(s)_ij               `normalize`: the softmax, or what replaces it
             * gate_ij c_{i-j}               `gate`; `relative_gate` gives c
    o_i      = sum_j w_ij (v_j + r^V_{i-j})  `relative_values` gives r^V

All terms but the dot product read queries and keys as they were before `qk`: with rotated ones, the
terms of the distance would depend on absolute positions. `hide` puts HIDDEN where a query does not
see a key (`rows.visible`); the weights of hidden keys are set to 0 after `normalize`. Logits,
weights and sums are float32, whatever dtype q, k and v have.
"""
